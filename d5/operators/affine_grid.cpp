// SPDX-License-Identifier: Apache-2.0
// The grid of points that affine maps make of an image's own (ONNX AffineGrid), for GridSample, in 2 or 3 axes.
//   y[n, i, j] = theta_n (x_j, y_i, 1)      d theta_n = sum over points of dy (x_j, y_i, 1)^T
// Coordinates run from -1 to 1: between the outer edges of an axis, or with align_corners between the middles of its
// outermost elements.
#include <algorithm>
#include <cmath>

#include "d5/operators/known.hpp"
#include "d5/operators/magnitude.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[affine_grid]";

class AffineGrid final : public Operator {
 public:
  explicit AffineGrid(const Attributes& a) : corners_(a.flag("align_corners", false)) {
    check_attributes(a, {"align_corners"}, place);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 2, 2, place);
    check_type(in[0], {DType::f32, DType::f64, DType::f16, DType::bf16}, place);
    const auto size = known_integers(in[1], "size", place);
    const auto axes = static_cast<Index>(size.size()) - 2;
    if (axes < 2 || axes > 3 || in[0].shape != Shape{size[0], axes, axes + 1})
      throw Error("{} theta is {} and size has {} values; n x 2 x 3 and 4, or n x 3 x 4 and 5, are wanted", place,
                  to_string(in[0].shape), size.size());
    std::vector<Index> sizes{size[0]};
    sizes.insert(sizes.end(), size.begin() + 2, size.end());
    sizes.push_back(axes);
    return {output_spec(in[0].dtype, std::move(sizes), place)};
  }

  void forward(Context& c) const override {
    const auto theta = c.input(0).values<double>(), y = c.output(0).values<double>();
    for_each(c.output(0).shape(), [&](Index out, Index row, const std::vector<double>& point) {
      y[out] = 0;
      for (size_t k = 0; k < point.size(); ++k) y[out] += theta[row + static_cast<Index>(k)] * point[k];
    });
  }

  void backward(Context& c) const override {
    if (!c.input_gradient(0).present()) return;
    const auto dtheta = cleared(c.input_gradient(0)), dy = c.output_gradient(0).values<double>();
    for_each(c.output_gradient(0).shape(), [&](Index out, Index row, const std::vector<double>& point) {
      for (size_t k = 0; k < point.size(); ++k) dtheta[row + static_cast<Index>(k)] += dy[out] * point[k];
    });
  }

  Cost cost(SpecSpan in, Pass) const override {
    const TensorSpec y = infer(in)[0];
    return {2 * static_cast<double>(y.elements() * in[0].shape.back()), input_bytes(in) + y.bytes()};
  }
  Rounding rounding(SpecSpan in, Pass pass, size_t) const override {
    const double points = static_cast<double>(infer(in)[0].elements());
    return {.terms = pass == Pass::forward ? 4 : points, .units = 4};
  }
  // Coordinates are at most 1.
  Tensor magnitude(const Context& c, Pass pass, size_t) const override {
    Tensor scale(DType::f64, pass == Pass::forward ? c.output(0).shape() : c.input(0).shape());
    const auto out = cleared(scale);
    for_each(c.output(0).shape(), [&](Index at, Index row, const std::vector<double>& point) {
      for (size_t k = 0; k < point.size(); ++k) {
        const Index from = row + static_cast<Index>(k);
        if (pass == Pass::forward)
          out[at] += std::abs(c.input(0).values<double>()[from]);
        else
          out[from] += std::abs(c.output_gradient(0).values<double>()[at]);
      }
    });
    return scale;
  }

  static std::vector<Parameter> parameters() {
    return {{"size", "n x c x 2 or 3 sizes of the image", "8x3x64x64"},
            {"corners", "-1 and 1 are the middles of the outermost elements", false}};
  }
  static OperatorCase describe(const Attributes& v, DType type) {
    const auto size = parse_shape(v.text("size", "")).sizes();
    const Index axes = std::max<Index>(0, static_cast<Index>(size.size()) - 2);
    return {.inputs = {{.spec = {type, {size.empty() ? 0 : size[0], axes, axes + 1}}}, known_input(size)},
            .attributes = {{"align_corners", int64_t{v.flag("corners", false)}}}};
  }
  static std::vector<Attributes> cases() {
    return {
        {{"size", "2x3x5x6"}}, {{"size", "1x1x2x3x4"}, {"corners", true}}, {{"size", "1x1x1x1"}, {"corners", true}}};
  }

 private:
  double coordinate(Index i, Index size) const {
    const double n = static_cast<double>(size), at = static_cast<double>(i);
    if (corners_) return size == 1 ? 0 : 2 * at / (n - 1) - 1;
    return (2 * at + 1) / n - 1;
  }

  // f(element of Y, first element of its row of theta, the point with a 1 behind it)
  template <class F>
  void for_each(const Shape& y, F&& f) const {
    const Index axes = y.back();
    std::vector<double> point(static_cast<size_t>(axes) + 1, 1);
    for (Index i = 0; i < y.elements() / std::max<Index>(1, axes); ++i) {
      Index rest = i;
      for (Index axis = axes; axis >= 1; rest /= y[axis], --axis)
        point[axes - axis] = coordinate(rest % y[axis], y[axis]);
      for (Index k = 0; k < axes; ++k) f(i * axes + k, (rest * axes + k) * (axes + 1), point);
    }
  }

  bool corners_;
};

}  // namespace
D5_REGISTER(operators, "AffineGrid", AffineGrid);
}  // namespace d5
