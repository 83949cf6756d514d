// SPDX-License-Identifier: Apache-2.0
// Logarithm of Softmax along one axis (ONNX LogSoftmax since opset 13).
//   y_i  = x_i - top - log sum_j exp(x_j - top)      top = max x
//   dx_i = dy_i - exp(y_i) sum_j dy_j
#include <algorithm>
#include <cmath>
#include <numeric>

#include "d5/operators/checks.hpp"
#include "d5/operators/elementwise.hpp"
#include "d5/operators/lines.hpp"
#include "d5/operators/log_softmax.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[log_softmax]";

class LogSoftmax final : public Operator {
 public:
  explicit LogSoftmax(const Attributes& a) : axis_(a.integer("axis", -1)) { check_attributes(a, {"axis"}, place); }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 1, 1, place);
    check_type(in[0], float_types, place);
    valid_axis(axis_, in[0].shape.rank(), place);
    return {{in[0].dtype, in[0].shape}};
  }

  void forward(Context& c) const override { log_softmax(axis_, c.input(0), c.output(0)); }

  void backward(Context& c) const override {
    if (c.input_gradient(0).present())
      log_softmax_gradient(axis_, c.output(0), c.output_gradient(0), c.input_gradient(0));
  }

  // Maximum, subtraction, exponential (as one), sum, subtraction; backward: a sum, an exponential, a product, a
  // subtraction.
  Cost cost(SpecSpan in, Pass pass) const override {
    const double elements = static_cast<double>(in[0].elements());
    return pass == Pass::forward ? Cost{5 * elements, 2 * in[0].bytes()} : Cost{4 * elements, 3 * in[0].bytes()};
  }

  Rounding rounding(SpecSpan in, Pass pass, size_t) const override {
    return {.terms = static_cast<double>(in[0].shape[valid_axis(axis_, in[0].shape.rank(), place)]),
            .units = elementary_units,
            .stored_outputs = pass == Pass::backward};
  }

  Tensor magnitude(const Context& c, Pass pass, size_t) const override {
    const Tensor error = log_softmax_error(axis_, c.input(0));
    return pass == Pass::forward ? error : log_softmax_gradient_error(axis_, c.output(0), error, c.output_gradient(0));
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
            {{"shape", "3x4x5"}, {"axis", -2}},
            {{"shape", "16x1000"}}};
  }

 private:
  Index axis_;
};

}  // namespace

void log_softmax(Index axis, const Tensor& from, const Tensor& to) {
  for (auto [x, y] : lines<double>(axis, from, to)) {
    const double top = *std::ranges::max_element(x);
    double sum = 0;
    for (const double value : x) sum += std::exp(value - top);
    for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] - top - std::log(sum);
  }
}

void log_softmax_gradient(Index axis, const Tensor& output, const Tensor& gradient, const Tensor& to) {
  for (auto [y, dy, dx] : lines<double>(axis, output, gradient, to)) {
    const double sum = std::accumulate(dy.begin(), dy.end(), 0.0);
    for (size_t i = 0; i < y.size(); ++i) dx[i] = dy[i] - std::exp(y[i]) * sum;
  }
}

// With d_j = top - x_j and p_j = exp(y_j): an exponential errs by a relative 1 + d_j, the sum by the mean of that over
// p, which is absolute in its logarithm; the logarithm and both subtractions are rounded.
Tensor log_softmax_error(Index axis, const Tensor& input) {
  Tensor error(DType::f64, input.shape());
  for (auto [x, out] : lines<double>(axis, input, error)) {
    const double top = *std::ranges::max_element(x);
    double sum = 0, mean = 0;
    for (const double value : x) {
      sum += std::exp(value - top);
      mean += std::exp(value - top) * (top - value);
    }
    for (size_t i = 0; i < x.size(); ++i) out[i] = (top - x[i]) + std::log(sum) + 1 + mean / sum;
  }
  return error;
}

// exp(y_i) of a y_i that errs, absolutely, by its own error, and by |y_i| where it was stored.
Tensor log_softmax_gradient_error(Index axis, const Tensor& output, const Tensor& error, const Tensor& gradient) {
  Tensor result(DType::f64, output.shape());
  for (auto [y, e, dy, out] : lines<double>(axis, output, error, gradient, result)) {
    double sum = 0;
    for (const double value : dy) sum += std::abs(value);
    for (size_t i = 0; i < y.size(); ++i) out[i] = std::abs(dy[i]) + std::exp(y[i]) * (1 + std::abs(y[i]) + e[i]) * sum;
  }
  return result;
}

D5_REGISTER(operators, "LogSoftmax", LogSoftmax);
}  // namespace d5
