// SPDX-License-Identifier: Apache-2.0
// Softmax along one axis (ONNX Softmax since opset 13; before, the input was flattened to two axes at `axis`: a matter
// for whoever reads such a model).
//   y_i  = exp(x_i - max x) / sum_j exp(x_j - max x)
//   dx_i = y_i (dy_i - sum_j dy_j y_j)
#include <algorithm>
#include <cmath>
#include <numeric>

#include "d5/operators/checks.hpp"
#include "d5/operators/lines.hpp"
#include "d5/operators/operator.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[softmax]";

class Softmax final : public Operator {
 public:
  explicit Softmax(const Attributes& a) : axis_(a.integer("axis", -1)) { check_attributes(a, {"axis"}, place); }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 1, 1, place);
    check_type(in[0], {DType::f32, DType::f64, DType::f16, DType::bf16}, place);
    valid_axis(axis_, in[0].shape.rank(), place);
    return {{in[0].dtype, in[0].shape}};
  }

  void forward(Context& c) const override {
    for (auto [x, y] : lines<double>(axis_, c.input(0), c.output(0))) {
      const double top = *std::ranges::max_element(x);
      double sum = 0;
      for (size_t i = 0; i < x.size(); ++i) sum += y[i] = std::exp(x[i] - top);
      for (double& v : y) v /= sum;
    }
  }

  void backward(Context& c) const override {
    for (auto [y, dy, dx] : lines<double>(axis_, c.output(0), c.output_gradient(0), c.input_gradient(0))) {
      const double dot = std::inner_product(y.begin(), y.end(), dy.begin(), 0.0);
      for (size_t i = 0; i < y.size(); ++i) dx[i] = y[i] * (dy[i] - dot);
    }
  }

  // Maximum, subtraction, exponential (as one), sum, division; backward: a product and a sum, a subtraction, a product.
  Cost cost(SpecSpan in, Pass pass) const override {
    const double elements = static_cast<double>(in[0].elements());
    return pass == Pass::forward ? Cost{5 * elements, 2 * in[0].bytes()} : Cost{4 * elements, 3 * in[0].bytes()};
  }

  // An exponential of 2 ulp, the subtraction before it, the division. Backward reads y as it was stored: rounded to the
  // element type, twice in each product.
  Rounding rounding(SpecSpan in, Pass pass, size_t) const override {
    const double accumulate = in[0].dtype == DType::f64 ? round_off(DType::f64) : round_off(DType::f32);
    const double stored = pass == Pass::backward ? 2 * round_off(in[0].dtype) / accumulate : 0;
    return {.terms = static_cast<double>(in[0].shape[valid_axis(axis_, in[0].shape.rank(), place)]),
            .units = 6 + stored};
  }

  // Rounding x_i - top by a relative u changes its exponential by a relative u |x_i - top|; the sum, whose weights are
  // the y_j, errs by the mean of that: y_i is off by u y_i r_i with r_i = 1 + |x_i - top| + sum_j y_j |x_j - top|. An
  // exponential below the smallest normal float may become zero: `flushed`, divided by u since it does not scale with
  // it. dx_i: y_i r_i times (|dy_i| + sum_j y_j |dy_j|), and y_i times the error of the dot product, sum_j y_j r_j
  // |dy_j|.
  Tensor magnitude(const Context& c, Pass pass, size_t) const override {
    constexpr double flushed = 0x1p-126 / 0x1p-24;
    Tensor scale(DType::f64, c.input(0).shape());
    for (auto [x, y, out] : lines<double>(axis_, c.input(0), c.output(0), scale)) {
      const double top = *std::ranges::max_element(x);
      double mean = 0;
      // What minus infinity hides is zero without an error.
      const auto share = [top](double x_i, double y_i) { return y_i == 0 ? 0 : y_i * (top - x_i); };
      for (size_t i = 0; i < x.size(); ++i) mean += share(x[i], y[i]);
      for (size_t i = 0; i < x.size(); ++i) out[i] = y[i] * (1 + mean) + share(x[i], y[i]) + flushed;
    }
    if (pass == Pass::forward) return scale;
    for (auto [y, dy, out] : lines<double>(axis_, c.output(0), c.output_gradient(0), scale)) {
      double dot = 0, dot_error = 0;
      for (size_t i = 0; i < y.size(); ++i) {
        dot += y[i] * std::abs(dy[i]);
        dot_error += out[i] * std::abs(dy[i]);
      }
      for (size_t i = 0; i < y.size(); ++i) out[i] = out[i] * (std::abs(dy[i]) + dot) + y[i] * dot_error;
    }
    return scale;
  }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X", "128x1000"}, {"axis", "axis that is normalised; -1 is the last", -1}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    return {.inputs = {{.spec = {type, parse_shape(v.text("shape", ""))}, .low = -4, .high = 4}},
            .attributes = {{"axis", v.integer("axis", -1)}}};
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "2x3"}},
            {{"shape", "5"}},
            {{"shape", "4x1"}},
            {{"shape", "3x17"}, {"axis", 0}},
            {{"shape", "2x8x5x7"}, {"axis", 1}},
            {{"shape", "2x3x5x9"}, {"axis", 3}},
            {{"shape", "3x4x5"}, {"axis", -2}},
            {{"shape", "16x1000"}}};
  }

 private:
  Index axis_;
};

}  // namespace
D5_REGISTER(operators, "Softmax", Softmax);
}  // namespace d5
