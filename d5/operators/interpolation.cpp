// SPDX-License-Identifier: Apache-2.0
#include "d5/operators/interpolation.hpp"

#include <algorithm>
#include <cmath>

#include "d5/core/error.hpp"
#include "d5/operators/selection.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[resize]";

std::string chosen(const Attributes& a, const std::string& name, const std::vector<std::string>& legal) {
  const std::string value = a.text(name, legal[0]);
  if (std::ranges::find(legal, value) == legal.end()) fail_unknown(place, name, value, legal);
  return value;
}

// Keys (1981), with the coefficient that ONNX calls cubic_coeff_a.
double cubic(double t, double a) {
  t = std::abs(t);
  if (t < 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
  return t < 2 ? ((t - 5) * t + 8) * t * a - 4 * a : 0;
}

double linear(double t) { return std::max(0.0, 1 - std::abs(t)); }

// The coordinate in the input. `resized` is the size that the scale asks for; `output` the whole number below it.
double coordinate(const std::string& mode, double o, double input, double output, double scale, double roi_start,
                  double roi_end) {
  const double resized = scale * input;
  if (mode == "asymmetric") return o / scale;
  if (mode == "tf_half_pixel_for_nn") return (o + 0.5) / scale;  // opsets 11 and 12
  if (mode == "align_corners") return resized == 1 ? 0 : o * (input - 1) / (resized - 1);
  if (mode == "pytorch_half_pixel" && output <= 1) return 0;
  if (mode == "tf_crop_and_resize") {
    const double length = (roi_end - roi_start) * (input - 1), start = roi_start * (input - 1);
    return start + (resized == 1 ? length / 2 : o * length / (resized - 1));
  }
  const double shift = mode == "half_pixel_symmetric" ? input / 2 * (1 - output / resized) : 0;
  return shift + (o + 0.5) / scale - 0.5;
}

Index nearest(const std::string& mode, double x) {
  if (mode == "floor") return static_cast<Index>(std::floor(x));
  if (mode == "ceil") return static_cast<Index>(std::ceil(x));
  if (mode == "round_prefer_ceil") return static_cast<Index>(std::floor(x + 0.5));
  return static_cast<Index>(std::ceil(x - 0.5));
}

}  // namespace

ResizeModes::ResizeModes(const Attributes& a)
    : mode(chosen(a, "mode", {"nearest", "linear", "cubic"})),
      coordinates(chosen(a, "coordinate_transformation_mode",
                         {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
                          "tf_crop_and_resize", "tf_half_pixel_for_nn"})),
      nearest(chosen(a, "nearest_mode", {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"})),
      cubic_a(a.real("cubic_coeff_a", -0.75)),
      outside_value(a.real("extrapolation_value", 0)),
      exclude_outside(a.flag("exclude_outside", false)),
      antialias(a.flag("antialias", false)) {
  if (antialias && mode == "nearest") throw Error("{} antialias is not defined for mode nearest", place);
}

const std::vector<std::string>& resize_mode_attributes() {
  static const std::vector<std::string> names{"mode",
                                              "coordinate_transformation_mode",
                                              "nearest_mode",
                                              "cubic_coeff_a",
                                              "extrapolation_value",
                                              "exclude_outside",
                                              "antialias"};
  return names;
}

ResizedAxis::ResizedAxis(const ResizeModes& modes, Index input, Index output, double scale, double roi_start,
                         double roi_end)
    : input_(input) {
  Sources::check_length(output);
  for (Index o = 0; o < output; ++o) {
    const double x = coordinate(modes.coordinates, static_cast<double>(o), static_cast<double>(input),
                                static_cast<double>(output), scale, roi_start, roi_end);
    outside_.push_back(modes.coordinates == "tf_crop_and_resize" && (x < 0 || x > static_cast<double>(input - 1)));
    taps_.emplace_back();
    if (outside_.back()) continue;
    if (modes.mode == "nearest")
      taps_.back().push_back({std::clamp<Index>(d5::nearest(modes.nearest, x), 0, input - 1), 1, 0});
    else
      add_taps(modes, x, scale);
  }
}

// The coordinate takes up to six roundings of numbers up to |x| + 1, so it errs by 6 (|x| + 1); a weight errs by that
// times the steepest slope of k, and by the roundings of k itself: 2 in 1 - |t|; the terms of the cubic add up to less
// than 8 + 48 |a|. A tap at the very end of the window may fall in or out. Dividing by the sum S of n weights: each
// errs by its own error and by its share of the others'.
void ResizedAxis::add_taps(const ResizeModes& modes, double x, double scale) {
  const bool is_linear = modes.mode == "linear";
  const double narrow = modes.antialias ? std::min(scale, 1.0) : 1, radius = (is_linear ? 1 : 2) / narrow;
  const double slope = is_linear ? 1 : 2 + 2 * std::abs(modes.cubic_a);
  const double own = is_linear ? 2 : 8 + 48 * std::abs(modes.cubic_a);
  const double error = 6 * (std::abs(x) + 1) * slope * narrow + own;
  std::vector<Tap>& taps = taps_.back();
  double sum = 0;
  for (auto i = static_cast<Index>(std::floor(x - radius)); static_cast<double>(i) <= x + radius + 1e-3; ++i) {
    const bool is_outside = i < 0 || i >= input_;
    if (is_outside && modes.exclude_outside) continue;
    const double t = narrow * (static_cast<double>(i) - x), weight = is_linear ? linear(t) : cubic(t, modes.cubic_a);
    if (std::abs(t) > narrow * radius + 1e-3) continue;
    taps.push_back({std::clamp<Index>(i, 0, input_ - 1), weight, error});
    sum += weight;
  }
  if (!modes.antialias && !modes.exclude_outside) return;
  const double share = (1 + static_cast<double>(taps.size())) / std::abs(sum);
  for (Tap& tap : taps) tap = {tap.input, sum == 0 ? 0 : tap.weight / sum, tap.error * share};
}

bool ResizedAxis::is_identity() const {
  if (output() != input_) return false;
  for (Index o = 0; o < output(); ++o) {
    if (outside_[o]) return false;
    for (const Tap& tap : taps_[o])
      if (tap.weight != (tap.input == o ? 1.0 : 0.0) && tap.weight != 0) return false;
  }
  return true;
}

}  // namespace d5
