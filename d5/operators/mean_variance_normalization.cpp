// SPDX-License-Identifier: Apache-2.0
// Mean taken off and divided by the deviation over some axes (ONNX MeanVarianceNormalization; its function body adds
// 1e-9 to the deviation). n elements are normalised together.
//   s = sqrt(mean(x^2) - mean(x)^2)      z = x - mean(x)      y = z / (s + e)
//   dx = (dy - mean(dy) - z mean(dy z) / (s (s + e))) / (s + e)
#include <algorithm>
#include <cmath>

#include "d5/operators/broadcast.hpp"
#include "d5/operators/checks.hpp"
#include "d5/operators/operator.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[mean_variance_normalization]";
constexpr double epsilon = 1e-9;

class MeanVarianceNormalization final : public Operator {
 public:
  explicit MeanVarianceNormalization(const Attributes& a) : axes_(a.integers("axes", {0, 2, 3})) {
    check_attributes(a, {"axes"}, place);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 1, 1, place);
    check_type(in[0], {DType::f32, DType::f64, DType::f16, DType::bf16}, place);
    reduced(in[0].shape);
    return {{in[0].dtype, in[0].shape}};
  }

  void forward(Context& c) const override {
    const auto x = c.input(0).values<double>(), y = c.output(0).values<double>();
    const Statistics s(x, c.input(0).shape(), reduced(c.input(0).shape()));
    for (size_t i = 0; i < x.size(); ++i) {
      const Index group = s.at(static_cast<Index>(i));
      y[i] = (x[i] - s.mean[group]) / (s.deviation[group] + epsilon);
    }
  }

  void backward(Context& c) const override {
    const auto x = c.input(0).values<double>(), dy = c.output_gradient(0).values<double>();
    const auto dx = c.input_gradient(0).values<double>();
    const Statistics s(x, c.input(0).shape(), reduced(c.input(0).shape()));
    std::vector<double> sum(s.mean.size()), dot(s.mean.size());
    for (size_t i = 0; i < x.size(); ++i) {
      const Index group = s.at(static_cast<Index>(i));
      sum[group] += dy[i] / s.count;
      dot[group] += dy[i] * (x[i] - s.mean[group]) / s.count;
    }
    for (size_t i = 0; i < x.size(); ++i) {
      const Index group = s.at(static_cast<Index>(i));
      const double deviation = s.deviation[group], z = x[i] - s.mean[group];
      const double slope = deviation == 0 ? 0 : z * dot[group] / (deviation * (deviation + epsilon));
      dx[i] = (dy[i] - sum[group] - slope) / (deviation + epsilon);
    }
  }

  Cost cost(SpecSpan in, Pass pass) const override {
    const double elements = static_cast<double>(in[0].elements());
    return pass == Pass::forward ? Cost{6 * elements, 2 * in[0].bytes()} : Cost{12 * elements, 3 * in[0].bytes()};
  }

  // Sums of n elements; the difference of the squares cancels, which magnitude() knows.
  Rounding rounding(SpecSpan in, Pass, size_t) const override {
    const double groups = static_cast<double>(reduced(in[0].shape).elements());
    return {.terms = static_cast<double>(in[0].elements()) / std::max(1.0, groups), .units = 16};
  }

  // The mean errs by mean |x|, the deviation relative to mean(x^2) / s^2; both reach y.
  Tensor magnitude(const Context& c, Pass pass, size_t) const override {
    const auto x = c.input(0).values<double>();
    const Statistics s(x, c.input(0).shape(), reduced(c.input(0).shape()));
    Tensor scale(DType::f64, c.input(0).shape());
    const auto out = scale.values<double>();
    std::vector<double> sum(s.mean.size(), 0);
    if (pass == Pass::backward)
      for (size_t i = 0; i < x.size(); ++i)
        sum[s.at(static_cast<Index>(i))] += std::abs(c.output_gradient(0).values<double>()[i]) / s.count;
    for (size_t i = 0; i < x.size(); ++i) {
      const Index group = s.at(static_cast<Index>(i));
      const double d = s.deviation[group] + epsilon, ratio = s.square[group] / (d * d);
      const double y = std::abs(x[i] - s.mean[group]) / d;
      out[i] = (std::abs(x[i]) + std::sqrt(s.square[group])) / d + y * ratio;
      if (pass == Pass::backward)
        out[i] = (std::abs(c.output_gradient(0).values<double>()[i]) + (1 + y) * sum[group]) * (1 + ratio) *
                 (1 + std::sqrt(ratio)) / d;
    }
    return scale;
  }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X", "16x64x28x28"}, {"axes", "axes that are normalised together", "0x2x3"}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    return {.inputs = {{.spec = {type, parse_shape(v.text("shape", ""))}}},
            .attributes = {{"axes", parse_shape(v.text("axes", "")).sizes()}}};
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "2x3x4x5"}}, {{"shape", "7x5"}, {"axes", "1"}}, {{"shape", "3x4x5"}, {"axes", "0x2"}}};
  }

 private:
  struct Statistics {
    Statistics(std::span<const double> x, const Shape& shape, const Shape& groups)
        : mean(static_cast<size_t>(groups.elements())),
          square(mean.size()),
          deviation(mean.size()),
          count(static_cast<double>(shape.elements()) / std::max(1.0, static_cast<double>(groups.elements()))),
          at(groups, shape) {
      for (size_t i = 0; i < x.size(); ++i) mean[at(static_cast<Index>(i))] += x[i] / count;
      for (size_t i = 0; i < x.size(); ++i) {
        const Index group = at(static_cast<Index>(i));
        square[group] += x[i] * x[i] / count;
        deviation[group] += (x[i] - mean[group]) * (x[i] - mean[group]) / count;
      }
      for (double& d : deviation) d = std::sqrt(d);
    }
    std::vector<double> mean, square, deviation;
    double count;
    Broadcast at;
  };

  // The shape with the axes at 1.
  Shape reduced(const Shape& x) const {
    std::vector<Index> sizes = x.sizes();
    for (const Index axis : axes_) sizes[valid_axis(axis, x.rank(), place)] = 1;
    return Shape(std::move(sizes));
  }

  std::vector<Index> axes_;
};

}  // namespace
D5_REGISTER(operators, "MeanVarianceNormalization", MeanVarianceNormalization);
}  // namespace d5
