// SPDX-License-Identifier: Apache-2.0
// Interpolation to another size (ONNX Resize): nearest, linear or cubic, one axis after the other (interpolation.hpp).
//   y = W_1 W_2 ... x      dx = W_1^T W_2^T ... dy
// The size of an axis is sizes, or floor(size scale). With keep_aspect_ratio_policy one scale serves all axes: the
// smallest that sizes ask for (not_larger) or the largest (not_smaller).
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <type_traits>

#include "d5/operators/interpolation.hpp"
#include "d5/operators/known.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[resize]";
const std::vector<std::string> policies{"stretch", "not_larger", "not_smaller"};

class Resize final : public Operator {
 public:
  explicit Resize(const Attributes& a)
      : modes_(a), axes_(a.integers("axes")), policy_(a.text("keep_aspect_ratio_policy", "stretch")) {
    std::vector<std::string> legal = resize_mode_attributes();
    legal.insert(legal.end(), {"axes", "keep_aspect_ratio_policy"});
    a.check_names(legal, place);
    if (std::ranges::find(policies, policy_) == policies.end())
      fail_unknown(place, "keep_aspect_ratio_policy", policy_, policies);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 1, 4, place);
    if (modes_.mode != "nearest" && !is_float(in[0].dtype))
      throw Error("{} X is of type {}; ONNX does not say how mode {} rounds, so a float type is wanted", place,
                  name(in[0].dtype), modes_.mode);
    std::vector<Index> sizes;
    for (const Size& size : output_sizes(in)) sizes.push_back(size.output);
    return {output_spec(in[0].dtype, std::move(sizes), place)};
  }

  void forward(Context& c) const override {
    const auto axes = resized(known_specs(c.inputs));
    with_compute_type(c.input(0).dtype(), [&]<class T>() {
      Tensor x = c.input(0);
      for (size_t axis = 0; axis < axes.size(); ++axis) {
        if (axes[axis].is_identity()) continue;
        const Tensor y = other_size(x, axis, axes[axis].output());
        const auto from = x.values<T>(), to = y.template values<T>();
        for_each_line(x.shape(), axis, axes[axis], [&](Index o, auto at_x, auto at_y) {
          if constexpr (std::is_same_v<T, double>) {
            double sum = axes[axis].lies_outside(o) ? modes_.outside_value : 0;
            for (const Tap& tap : axes[axis].taps(o))
              if (tap.weight != 0) sum += tap.weight * from[at_x(tap.input)];
            to[at_y(o)] = sum;
          } else {
            to[at_y(o)] = axes[axis].lies_outside(o) ? static_cast<T>(modes_.outside_value)
                                                     : from[at_x(axes[axis].taps(o)[0].input)];
          }
        });
        x = y;
      }
      c.output(0).copy_from(x);
    });
  }

  void backward(Context& c) const override {
    if (!c.input_gradient(0).present()) return;
    const auto axes = resized(known_specs(c.inputs));
    Tensor dy = c.output_gradient(0);
    for (size_t axis = axes.size(); axis-- > 0;) {
      if (axes[axis].is_identity()) continue;
      const Tensor dx = other_size(dy, axis, axes[axis].input());
      dx.fill_bytes(0);
      const auto from = dy.values<double>(), to = dx.values<double>();
      for_each_line(dx.shape(), axis, axes[axis], [&](Index o, auto at_x, auto at_y) {
        for (const Tap& tap : axes[axis].taps(o)) to[at_x(tap.input)] += tap.weight * from[at_y(o)];
      });
      dy = dx;
    }
    c.input_gradient(0).copy_from(dy);
  }

  Cost cost(SpecSpan in, Pass pass) const override {
    const TensorSpec y = infer(in)[0];
    double flops = 0, elements = static_cast<double>(in[0].elements()), read = 1;
    for (const ResizedAxis& axis : resized(in)) {
      double weights = 0;
      std::set<Index> inputs;
      for (Index o = 0; o < axis.output(); ++o)
        for (const Tap& tap : axis.taps(o)) {
          weights += tap.weight != 0;
          inputs.insert(tap.input);
        }
      read *= static_cast<double>(inputs.size());
      elements /= std::max(1.0, static_cast<double>(axis.input()));
      if (!axis.is_identity() && modes_.mode != "nearest") flops += 2 * weights * elements;
      elements *= static_cast<double>(axis.output());
    }
    const double choice = input_bytes(in.subspan(1));
    if (pass == Pass::backward) return {flops, y.bytes() + in[0].bytes() + choice};
    return {flops, read * bits(in[0].dtype) / 8 + y.bytes() + choice};
  }

  // Interpolation: everything is in the magnitude. Nearest: a copy; backward adds up the copies of one element.
  Rounding rounding(SpecSpan in, Pass pass, size_t) const override {
    if (modes_.mode != "nearest") return {.terms = 0, .units = 1};
    if (pass == Pass::forward) return {.terms = 0, .units = 0, .exact = true};
    double readers = 1;
    for (const ResizedAxis& axis : resized(in)) readers *= most_readers(axis);
    return {.terms = readers, .units = 0, .exact = true};
  }

  // First-order errors in units of u, axis by axis. With A the result on absolute values so far and B its error, an
  // axis with weights w of error e (interpolation.hpp) gives
  //   A' = sum |w| A      B' = sum |w| B + sum e A + (n + 1) sum |w| A      for n products and their sum.
  Tensor magnitude(const Context& c, Pass pass, size_t) const override {
    if (modes_.mode == "nearest") return {};
    const auto axes = resized(known_specs(c.inputs));
    const bool forward = pass == Pass::forward;
    Tensor value = (forward ? c.input(0) : c.output_gradient(0)).clone();
    for (double& v : value.values<double>()) v = std::abs(v);
    Tensor error(DType::f64, value.shape());
    error.fill_bytes(0);
    for (size_t k = 0; k < axes.size(); ++k) {
      const size_t axis = forward ? k : axes.size() - 1 - k;
      const ResizedAxis& a = axes[axis];
      if (a.is_identity()) continue;
      const double roundings = 1 + (forward ? most_taps(a) : most_readers(a));
      const Tensor next = other_size(value, axis, forward ? a.output() : a.input());
      const Tensor next_error = next.clone();
      next.fill_bytes(0);
      next_error.fill_bytes(0);
      const Shape& input = forward ? value.shape() : next.shape();
      const auto from = value.values<double>(), from_error = error.values<double>(), to = next.values<double>(),
                 to_error = next_error.values<double>();
      for_each_line(input, axis, a, [&](Index o, auto at_x, auto at_y) {
        if (a.lies_outside(o) && forward) to[at_y(o)] = std::abs(modes_.outside_value);
        for (const Tap& tap : a.taps(o)) {
          const Index source = forward ? at_x(tap.input) : at_y(o), target = forward ? at_y(o) : at_x(tap.input);
          const double weight = std::abs(tap.weight);
          to[target] += weight * from[source];
          to_error[target] += weight * (from_error[source] + roundings * from[source]) + tap.error * from[source];
        }
      });
      value = next;
      error = next_error;
    }
    return error;
  }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X", "16x64x28x28"},
            {"scales", "factor for each axis, as in 1x1x2x0.5; empty: use sizes", "1x1x2x2"},
            {"sizes", "new size of each axis, as in 1x3x7x7; empty: use scales", ""},
            {"axes", "the axes these belong to, as in 2x3; empty: all", ""},
            {"interpolation", "nearest, linear or cubic (the attribute mode)", "nearest"},
            {"coordinates", "coordinate_transformation_mode", "half_pixel"},
            {"nearest_mode", "round_prefer_floor, round_prefer_ceil, floor or ceil", "round_prefer_floor"},
            {"cubic_coeff_a", "coefficient of the cubic", -0.75},
            {"exclude_outside", "leave out what lies outside instead of repeating the edge", false},
            {"antialias", "widen the window where the size shrinks", false},
            {"policy", "keep_aspect_ratio_policy: stretch, not_larger or not_smaller", "stretch"},
            {"roi", "starts and ends of the part that tf_crop_and_resize reads, as in 0:0:0.5:1", ""},
            {"extrapolation_value", "what tf_crop_and_resize gives outside", 0.0}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    const auto reals = [&](const std::string& name, bool given) {
      const auto list = real_list(v, name);
      if (!given || !list) return absent_input();
      return OperatorInput{
          .spec = known_spec(Tensor::from<double>({static_cast<Index>(list->size())}, *list).cast(DType::f32)),
          .differentiable = false};
    };
    const bool by_size = !v.text("sizes", "").empty();
    OperatorCase one{.inputs = {{.spec = {type, parse_shape(v.text("shape", ""))}},
                                reals("roi", true),
                                reals("scales", !by_size),
                                list_input(v, "sizes")},
                     .attributes = {{"mode", v.text("interpolation", "nearest")},
                                    {"coordinate_transformation_mode", v.text("coordinates", "half_pixel")},
                                    {"nearest_mode", v.text("nearest_mode", "round_prefer_floor")},
                                    {"cubic_coeff_a", v.real("cubic_coeff_a", -0.75)},
                                    {"exclude_outside", int64_t{v.flag("exclude_outside", false)}},
                                    {"antialias", int64_t{v.flag("antialias", false)}},
                                    {"keep_aspect_ratio_policy", v.text("policy", "stretch")},
                                    {"extrapolation_value", v.real("extrapolation_value", 0)}}};
    if (const auto axes = integer_list(v, "axes")) one.attributes.set("axes", *axes);
    return one;
  }

  static std::vector<Attributes> cases() {
    return {
        {{"shape", "1x1x2x2"}},
        {{"shape", "5"}, {"scales", "0.5"}},
        {{"shape", "2x3x4x4"}, {"scales", "1x1x2x2"}, {"coordinates", "asymmetric"}, {"nearest_mode", "floor"}},
        {{"shape", "1x2x3x5"}, {"sizes", "7x8"}, {"axes", "2x3"}},
        {{"shape", "1x2x3x5"}, {"scales", "1x1x2x1.5"}, {"interpolation", "linear"}},
        {{"shape", "2x5"}, {"sizes", "3x8"}, {"interpolation", "linear"}, {"coordinates", "align_corners"}},
        {{"shape", "7x6"}, {"sizes", "3x1"}, {"interpolation", "linear"}, {"coordinates", "pytorch_half_pixel"}},
        {{"shape", "9x8"}, {"scales", "0.4x0.6"}, {"interpolation", "linear"}, {"antialias", true}},
        {{"shape", "6x5"}, {"scales", "0.7x1.3"}, {"interpolation", "linear"}, {"coordinates", "half_pixel_symmetric"}},
        {{"shape", "1x1x4x5"}, {"scales", "1x1x2x1.6"}, {"interpolation", "cubic"}},
        {{"shape", "4x5"},
         {"sizes", "9x3"},
         {"interpolation", "cubic"},
         {"exclude_outside", true},
         {"cubic_coeff_a", -0.5}},
        {{"shape", "8x7"}, {"scales", "0.5x0.8"}, {"interpolation", "cubic"}, {"antialias", true}},
        {{"shape", "4x4"},
         {"sizes", "3x5"},
         {"interpolation", "linear"},
         {"coordinates", "tf_crop_and_resize"},
         {"roi", "0.4:-0.2:0.6:1.1"},
         {"extrapolation_value", 10.0}},
        {{"shape", "3x5"}, {"sizes", "7x8"}, {"policy", "not_larger"}, {"interpolation", "linear"}},
        {{"shape", "2x8x14x14"}},
        {{"shape", "2x8x14x14"}, {"interpolation", "linear"}}};
  }

 private:
  struct Size {
    Index output;
    double scale, roi_start = 0, roi_end = 1;
  };

  static std::vector<double> known_reals(const TensorSpec& spec, const char* name) {
    if (!is_float(spec.dtype))
      throw Error("{} {} are of type {}; a float type is wanted", place, name, d5::name(spec.dtype));
    if (!spec.known) throw UnknownValue("{} the value of {} must be known before the run; it is not", place, name);
    const Tensor wide = spec.known->cast(DType::f64);
    const auto values = wide.values<double>();
    return {values.begin(), values.end()};
  }

  static bool given(SpecSpan in, size_t i) {
    return has(in, i) && in[i].elements() > 0;
  }  // an empty one counts as absent

  std::vector<Size> output_sizes(SpecSpan in) const {
    const Shape& x = in[0].shape;
    std::vector<Index> axes = axes_;
    if (axes.empty())
      for (size_t axis = 0; axis < x.rank(); ++axis) axes.push_back(static_cast<Index>(axis));
    if (given(in, 2) == given(in, 3)) throw Error("{} exactly one of the inputs scales and sizes is wanted", place);
    const auto scales = given(in, 2) ? known_reals(in[2], "scales") : std::vector<double>();
    const auto sizes = given(in, 3) ? known_integers(in[3], "sizes", place) : std::vector<Index>();
    const bool crops = modes_.coordinates == "tf_crop_and_resize";
    const auto roi = crops && given(in, 1) ? known_reals(in[1], "roi") : std::vector<double>();
    if (std::max(scales.size(), sizes.size()) != axes.size())
      throw Error("{} {} scales or sizes are given; {} are wanted, one for each axis", place,
                  std::max(scales.size(), sizes.size()), axes.size());
    if (crops && roi.size() != 2 * axes.size())
      throw Error("{} roi has {} values; {} are wanted, starts and ends of {} axes", place, roi.size(), 2 * axes.size(),
                  axes.size());
    std::vector<Size> all;
    for (const Index size : x) all.push_back({size, 1});
    double common = policy_ == "not_larger" ? INFINITY : 0;
    for (size_t i = 0; i < axes.size(); ++i) {
      const size_t axis = valid_axis(axes[i], x.rank(), place);
      Size& size = all[axis];
      if (!scales.empty()) {
        if (!(scales[i] > 0) || !std::isfinite(scales[i]))
          throw Error("{} the scale of axis {} is {}; a positive number is wanted", place, axis, scales[i]);
        // In f32, as ONNX's own inference of shapes has it.
        const float output = std::floor(static_cast<float>(x[axis]) * static_cast<float>(scales[i]));
        if (!(output < 0x1p56f))
          throw Error("{} axis {} of size {} times {} is too large", place, axis, x[axis], scales[i]);
        size = {static_cast<Index>(output), scales[i]};
      } else {
        size = {sizes[i], static_cast<double>(sizes[i]) / static_cast<double>(x[axis])};
        if (sizes[i] < 0) throw Error("{} the new size of axis {} is {}", place, axis, sizes[i]);
        common = policy_ == "not_larger" ? std::min(common, size.scale) : std::max(common, size.scale);
      }
      if (x[axis] == 0 && size.output > 0) throw Error("{} axis {} is empty: there is nothing to read", place, axis);
      if (crops) std::tie(size.roi_start, size.roi_end) = std::pair(roi[i], roi[i + axes.size()]);
    }
    if (policy_ == "stretch" || sizes.empty()) return all;
    for (const Index axis : axes) {
      Size& size = all[valid_axis(axis, x.rank(), place)];
      size.output = static_cast<Index>(common * static_cast<double>(x[valid_axis(axis, x.rank(), place)]) + 0.5);
      size.scale = common;
    }
    return all;
  }

  std::vector<ResizedAxis> resized(SpecSpan in) const {
    std::vector<ResizedAxis> axes;
    for (const Size& size : output_sizes(in))
      axes.emplace_back(modes_, in[0].shape[axes.size()], size.output, size.scale, size.roi_start, size.roi_end);
    return axes;
  }

  static Tensor other_size(const Tensor& like, size_t axis, Index size) {
    std::vector<Index> sizes = like.shape().sizes();
    sizes[axis] = size;
    return {like.dtype(), Shape(std::move(sizes))};
  }

  // f(o, where an input of its line lies, where an output of it lies); x is the shape with the axis not yet resized.
  template <class F>
  static void for_each_line(const Shape& x, size_t axis, const ResizedAxis& resized, F&& f) {
    const Index inner = x.elements(axis + 1, x.rank()), outer = x.elements(0, axis);
    for (Index line = 0; line < outer; ++line)
      for (Index o = 0; o < resized.output(); ++o)
        for (Index b = 0; b < inner; ++b)
          f(
              o, [&](Index i) { return (line * resized.input() + i) * inner + b; },
              [&](Index j) { return (line * resized.output() + j) * inner + b; });
  }

  static double most_taps(const ResizedAxis& axis) {
    size_t most = 0;
    for (Index o = 0; o < axis.output(); ++o) most = std::max(most, axis.taps(o).size());
    return static_cast<double>(most);
  }

  static double most_readers(const ResizedAxis& axis) {
    std::vector<double> readers(static_cast<size_t>(std::max<Index>(1, axis.input())), 0);
    for (Index o = 0; o < axis.output(); ++o)
      for (const Tap& tap : axis.taps(o)) ++readers[tap.input];
    return *std::ranges::max_element(readers);
  }

  ResizeModes modes_;
  std::vector<Index> axes_;
  std::string policy_;
};

}  // namespace
D5_REGISTER(operators, "Resize", Resize);
}  // namespace d5
