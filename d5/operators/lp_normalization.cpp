// SPDX-License-Identifier: Apache-2.0
// Lines along an axis divided by their p-norm, p = 1 or 2 (ONNX LpNormalization). A line of zeros stays zero.
//   n = (sum |x|^p)^(1/p)      y = x / n
//   p = 2: dx = (dy - y sum(dy y)) / n      p = 1: dx = (dy - sign(x) sum(dy y)) / n
#include <cmath>

#include "d5/operators/checks.hpp"
#include "d5/operators/lines.hpp"
#include "d5/operators/operator.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[lp_normalization]";

class LpNormalization final : public Operator {
 public:
  explicit LpNormalization(const Attributes& a) : axis_(a.integer("axis", -1)), p_(a.integer("p", 2)) {
    check_attributes(a, {"axis", "p"}, place);
    if (p_ != 1 && p_ != 2) throw UsageError("{} p is {}; legal: 1, 2", place, p_);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 1, 1, place);
    check_type(in[0], {DType::f32, DType::f64, DType::f16, DType::bf16}, place);
    valid_axis(axis_, in[0].shape.rank(), place);
    return {{in[0].dtype, in[0].shape}};
  }

  void forward(Context& c) const override {
    for (auto [x, y] : lines<double>(axis_, c.input(0), c.output(0))) {
      const double n = norm(x);
      for (size_t i = 0; i < x.size(); ++i) y[i] = n == 0 ? 0 : x[i] / n;
    }
  }

  void backward(Context& c) const override {
    for (auto [x, dy, dx] : lines<double>(axis_, c.input(0), c.output_gradient(0), c.input_gradient(0))) {
      const double n = norm(x);
      double dot = 0;
      for (size_t i = 0; i < x.size(); ++i) dot += n == 0 ? 0 : dy[i] * x[i] / n;
      for (size_t i = 0; i < x.size(); ++i) {
        const double slope = p_ == 2 ? x[i] / n : static_cast<double>(x[i] > 0) - static_cast<double>(x[i] < 0);
        dx[i] = n == 0 ? 0 : (dy[i] - slope * dot) / n;
      }
    }
  }

  Cost cost(SpecSpan in, Pass pass) const override {
    const double elements = static_cast<double>(in[0].elements());
    return pass == Pass::forward ? Cost{3 * elements, 2 * in[0].bytes()} : Cost{7 * elements, 3 * in[0].bytes()};
  }

  // The norm is a sum of positive terms; then a root and a division. Backward: the dot product is another sum.
  Rounding rounding(SpecSpan in, Pass pass, size_t) const override {
    const auto size = static_cast<double>(in[0].shape[valid_axis(axis_, in[0].shape.rank(), place)]);
    return {.terms = pass == Pass::forward ? size : 2 * size, .units = pass == Pass::forward ? 3.0 : 8.0};
  }

  Tensor magnitude(const Context& c, Pass pass, size_t) const override {
    Tensor scale(DType::f64, c.input(0).shape());
    if (pass == Pass::forward) {
      for (auto [x, out] : lines<double>(axis_, c.input(0), scale)) {
        const double n = norm(x);
        for (size_t i = 0; i < x.size(); ++i) out[i] = n == 0 ? 0 : std::abs(x[i]) / n;
      }
      return scale;
    }
    for (auto [x, dy, out] : lines<double>(axis_, c.input(0), c.output_gradient(0), scale)) {
      const double n = norm(x);
      double dot = 0;
      for (size_t i = 0; i < x.size(); ++i) dot += n == 0 ? 0 : std::abs(dy[i] * x[i]) / n;
      for (size_t i = 0; i < x.size(); ++i)
        out[i] = n == 0 ? 0 : (std::abs(dy[i]) + (p_ == 2 ? std::abs(x[i]) / n : 1) * dot) / n;
    }
    return scale;
  }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X", "128x768"},
            {"axis", "axis along which the norm is taken", -1},
            {"p", "the norm: 1 or 2", 2}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    return {.inputs = {{.spec = {type, parse_shape(v.text("shape", ""))}}},
            .attributes = {{"axis", v.integer("axis", -1)}, {"p", v.integer("p", 2)}}};
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "5"}},
            {{"shape", "3x4"}, {"axis", 0}, {"p", 1}},
            {{"shape", "2x3x5"}, {"axis", 1}},
            {{"shape", "16x100"}, {"p", 1}}};
  }

 private:
  double norm(const Line<double>& x) const {
    double sum = 0;
    for (const double value : x) sum += p_ == 2 ? value * value : std::abs(value);
    return p_ == 2 ? std::sqrt(sum) : sum;
  }

  Index axis_, p_;
};

}  // namespace
D5_REGISTER(operators, "LpNormalization", LpNormalization);
}  // namespace d5
