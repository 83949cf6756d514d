// SPDX-License-Identifier: Apache-2.0
// Regions of a feature map pooled to one size (ONNX RoiAlign: He et al., 2017; MaxRoiPool: Girshick, 2015). No
// gradient.
//   RoiAlign    a region is cut into bins of real size; a bin is the mean (or the largest term of the interpolation) of
//               points spread evenly in it, each interpolated between its four neighbours
//   MaxRoiPool  corners are rounded to whole elements; a bin is the largest element it touches, 0 where it has none
#include <algorithm>
#include <array>
#include <cmath>

#include "d5/operators/checks.hpp"
#include "d5/operators/operator.hpp"

namespace d5 {
namespace {

constexpr std::initializer_list<DType> floats{DType::f32, DType::f64, DType::f16, DType::bf16};

class RoiAlign final : public Operator {
 public:
  explicit RoiAlign(const Attributes& a)
      : height_(a.integer("output_height", 1)),
        width_(a.integer("output_width", 1)),
        samples_(a.integer("sampling_ratio", 0)),
        scale_(a.real("spatial_scale", 1)) {
    check_attributes(
        a,
        {"coordinate_transformation_mode", "mode", "output_height", "output_width", "sampling_ratio", "spatial_scale"},
        place);
    const std::string mode = a.text("mode", "avg"), shift = a.text("coordinate_transformation_mode", "half_pixel");
    if (mode != "avg" && mode != "max") throw UsageError("{} mode is '{}'; legal: avg, max", place, mode);
    if (shift != "half_pixel" && shift != "output_half_pixel")
      throw UsageError("{} coordinate_transformation_mode is '{}'; legal: half_pixel, output_half_pixel", place, shift);
    constexpr Index most_samples = 1024;
    if (height_ < 1 || width_ < 1 || samples_ < 0 || samples_ > most_samples)
      throw UsageError("{} output is {}x{} and sampling_ratio {}; at least 1x1, and 0 to {}, are wanted", place,
                       height_, width_, samples_, most_samples);
    mean_ = mode == "avg";
    half_pixel_ = shift == "half_pixel";
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 3, 3, place);
    check_type(in[0], floats, place);
    check_rank(in[0], "X", 4, place);
    const Index regions = in[2].shape.rank() == 1 ? in[2].shape[0] : -1;
    if (in[1].shape != Shape{std::max<Index>(0, regions), 4} || in[2].dtype != DType::i64)
      throw Error("{} rois is {} and batch_indices {}; n x 4 and n indices (i64) are wanted", place,
                  to_string(in[1].shape), to_string(in[2]));
    return {output_spec(in[0].dtype, {regions, in[0].shape[1], height_, width_}, place)};
  }

  void forward(Context& c) const override {
    const Shape& shape = c.input(0).shape();
    const Index channels = shape[1], h = shape[2], w = shape[3];
    const auto x = c.input(0).values<double>(), rois = c.input(1).values<double>(), y = c.output(0).values<double>();
    const auto images = c.input(2).values<int64_t>();
    for (size_t r = 0; r < images.size(); ++r) {
      if (images[r] < 0 || images[r] >= shape[0])
        throw Error("{} region {} is of image {}; there are {}", place, r, images[r], shape[0]);
      const Bins vertical = bins(rois[4 * r + 1], rois[4 * r + 3], height_);
      const Bins horizontal = bins(rois[4 * r], rois[4 * r + 2], width_);
      for (Index channel = 0; channel < channels; ++channel) {
        const double* plane = &x[(images[r] * channels + channel) * h * w];
        double* out = &y[(static_cast<Index>(r) * channels + channel) * height_ * width_];
        for (Index i = 0; i < height_; ++i)
          for (Index j = 0; j < width_; ++j) *out++ = pooled(plane, h, w, vertical, horizontal, i, j);
      }
    }
  }

  Rounding rounding(SpecSpan in, Pass, size_t) const override {
    return {.terms = static_cast<double>(in[0].shape.elements(2, 4)), .units = 16};
  }
  // Weights of at most 1 for elements of the map.
  Tensor magnitude(const Context& c, Pass, size_t) const override {
    double top = 0;
    for (const double value : c.input(0).values<double>()) top = std::max(top, std::abs(value));
    Tensor scale(DType::f64, c.output(0).shape());
    std::ranges::fill(scale.values<double>(), top);
    return scale;
  }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X", "2x256x50x50"},
            {"regions", "number of regions", 100},
            {"output_size", "size of the result", 7},
            {"samples", "points of a bin along each axis; 0: as many as it has elements", 2}};
  }
  static OperatorCase describe(const Attributes& v, DType type) {
    const Shape x = parse_shape(v.text("shape", ""));
    if (x.rank() != 4) throw UsageError("{} shape is {}; four axes are wanted", place, to_string(x));
    const Index regions = v.integer("regions", 0);
    return {.inputs = {{.spec = {type, x}, .differentiable = false},
                       {.spec = {type, {regions, 4}},
                        .low = 0,
                        .high = static_cast<double>(std::min(x[2], x[3])),
                        .differentiable = false},
                       {.spec = {DType::i64, {regions}},
                        .low = 0,
                        .high = static_cast<double>(x[0] - 1),
                        .differentiable = false}},
            .attributes = {{"output_height", v.integer("output_size", 1)},
                           {"output_width", v.integer("output_size", 1)},
                           {"sampling_ratio", v.integer("samples", 0)}}};
  }
  static std::vector<Attributes> cases() {
    return {{{"shape", "1x1x10x10"}, {"regions", 3}, {"output_size", 5}},
            {{"shape", "2x3x7x8"}, {"regions", 4}, {"output_size", 2}, {"samples", 0}}};
  }

 private:
  static constexpr std::string_view place = "[roi_align]";

  // Along one axis: where a region begins, the size of a bin and the points in it.
  struct Bins {
    double start, size;
    Index points;
  };
  Bins bins(double first, double last, Index count) const {
    const double shift = half_pixel_ ? 0.5 : 0;
    double length = (last - first) * scale_;
    if (!half_pixel_) length = std::max(length, 1.0);
    const double size = length / static_cast<double>(count);
    return {first * scale_ - shift, size, samples_ > 0 ? samples_ : static_cast<Index>(std::ceil(size))};
  }

  // The two neighbours of a point along an axis and the weight of the second. No weight beyond the map and its margin.
  struct Pair {
    Index low = 0, high = 0;
    double weight = 0;
    bool inside = false;
  };
  static Pair neighbours(double at, Index size) {
    if (!(at >= -1 && at <= static_cast<double>(size))) return {};
    at = std::max(at, 0.0);
    const auto low = static_cast<Index>(at);
    if (low >= size - 1) return {size - 1, size - 1, 0, true};
    return {low, low + 1, at - static_cast<double>(low), true};
  }

  double pooled(const double* plane, Index h, Index w, const Bins& v, const Bins& u, Index i, Index j) const {
    double sum = 0, top = 0;
    bool first = true;
    for (Index a = 0; a < v.points; ++a)
      for (Index b = 0; b < u.points; ++b) {
        const auto at = [](const Bins& bins, Index bin, Index point) {
          return bins.start + static_cast<double>(bin) * bins.size +
                 (static_cast<double>(point) + 0.5) * bins.size / static_cast<double>(bins.points);
        };
        const Pair y = neighbours(at(v, i, a), h), x = neighbours(at(u, j, b), w);
        std::array<double, 4> terms{};
        if (y.inside && x.inside)
          terms = {(1 - y.weight) * (1 - x.weight) * plane[y.low * w + x.low],
                   (1 - y.weight) * x.weight * plane[y.low * w + x.high],
                   y.weight * (1 - x.weight) * plane[y.high * w + x.low],
                   y.weight * x.weight * plane[y.high * w + x.high]};
        sum += terms[0] + terms[1] + terms[2] + terms[3];
        const double largest = *std::ranges::max_element(terms);
        top = first ? largest : std::max(top, largest);
        first = false;
      }
    return mean_ ? sum / static_cast<double>(std::max<Index>(1, v.points * u.points)) : top;
  }

  Index height_, width_, samples_;
  double scale_;
  bool mean_ = true, half_pixel_ = true;
};

class MaxRoiPool final : public Operator {
 public:
  explicit MaxRoiPool(const Attributes& a) : pooled_(a.integers("pooled_shape")), scale_(a.real("spatial_scale", 1)) {
    check_attributes(a, {"pooled_shape", "spatial_scale"}, place);
    if (pooled_.size() != 2 || pooled_[0] < 1 || pooled_[1] < 1)
      throw UsageError("{} pooled_shape has {} sizes; two are wanted, of at least 1", place, pooled_.size());
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 2, 2, place);
    check_same_type(in, place);
    check_type(in[0], floats, place);
    check_rank(in[0], "X", 4, place);
    check_rank(in[1], "rois", 2, place);
    if (in[1].shape[1] != 5) throw Error("{} rois is {}; n x 5 is wanted", place, to_string(in[1].shape));
    return {output_spec(in[0].dtype, {in[1].shape[0], in[0].shape[1], pooled_[0], pooled_[1]}, place)};
  }

  void forward(Context& c) const override {
    const Shape& shape = c.input(0).shape();
    const Index channels = shape[1], h = shape[2], w = shape[3];
    const auto x = c.input(0).values<double>(), rois = c.input(1).values<double>(), y = c.output(0).values<double>();
    Index out = 0;
    for (Index r = 0; r < c.input(1).shape()[0]; ++r) {
      const double* roi = &rois[5 * r];
      const auto image = static_cast<Index>(roi[0]);
      if (image < 0 || image >= shape[0])
        throw Error("{} region {} is of image {}; there are {}", place, r, image, shape[0]);
      for (Index channel = 0; channel < channels; ++channel)
        for (Index i = 0; i < pooled_[0]; ++i)
          for (Index j = 0; j < pooled_[1]; ++j) {
            const Range rows = range(roi[2], roi[4], i, pooled_[0], h),
                        columns = range(roi[1], roi[3], j, pooled_[1], w);
            double top = 0;
            bool first = true;
            for (Index a = rows.first; a < rows.last; ++a)
              for (Index b = columns.first; b < columns.last; ++b) {
                const double value = x[((image * channels + channel) * h + a) * w + b];
                top = first ? value : std::max(top, value);
                first = false;
              }
            y[out++] = top;
          }
    }
  }

  Rounding rounding(SpecSpan, Pass, size_t) const override { return {.terms = 0, .units = 0}; }
  Tensor magnitude(const Context& c, Pass, size_t) const override { return c.output(0); }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X", "1x256x50x50"},
            {"regions", "number of regions", 100},
            {"output_size", "size of the result", 7}};
  }
  // All regions are of image 0: the batch index is one of the real numbers of a region.
  static OperatorCase describe(const Attributes& v, DType type) {
    const Shape x = parse_shape(v.text("shape", ""));
    if (x.rank() != 4 || x[0] != 1)
      throw UsageError("{} shape is {}; one image of four axes is wanted", place, to_string(x));
    return {.inputs = {{.spec = {type, x}, .differentiable = false},
                       {.spec = {type, {v.integer("regions", 0), 5}}, .low = 0, .high = 0.9, .differentiable = false}},
            .attributes = {{"pooled_shape", std::vector<Index>(2, v.integer("output_size", 1))},
                           {"spatial_scale", static_cast<double>(std::min(x[2], x[3]))}}};
  }
  static std::vector<Attributes> cases() { return {{{"shape", "1x2x9x8"}, {"regions", 3}, {"output_size", 2}}}; }

 private:
  static constexpr std::string_view place = "[max_roi_pool]";
  struct Range {
    Index first, last;
  };
  Range range(double from, double to, Index bin, Index bins, Index size) const {
    const double start = std::round(from * scale_), length = std::max(1.0, std::round(to * scale_) - start + 1);
    const double each = length / static_cast<double>(bins);
    const auto clamp = [&](double at) {  // a region of no numbers is empty
      const double edge = at + start;
      return edge > 0 ? static_cast<Index>(std::min(edge, static_cast<double>(size))) : 0;
    };
    return {clamp(std::floor(static_cast<double>(bin) * each)), clamp(std::ceil(static_cast<double>(bin + 1) * each))};
  }

  std::vector<Index> pooled_;
  double scale_;
};

}  // namespace
D5_REGISTER(operators, "RoiAlign", RoiAlign);
D5_REGISTER(operators, "MaxRoiPool", MaxRoiPool);
}  // namespace d5
