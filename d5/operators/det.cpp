// SPDX-License-Identifier: Apache-2.0
// Determinants of square matrices (ONNX Det), by elimination with the largest pivot of each column. No gradient.
//   P A = L U      y = sign(P) prod u_ii
#include <cmath>

#include "d5/operators/checks.hpp"
#include "d5/operators/operator.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[det]";

class Det final : public Operator {
 public:
  explicit Det(const Attributes& a) { check_attributes(a, {}, place); }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 1, 1, place);
    check_type(in[0], {DType::f32, DType::f64, DType::f16, DType::bf16}, place);
    const Shape& x = in[0].shape;
    if (x.rank() < 2 || x[x.rank() - 1] != x[x.rank() - 2])
      throw Error("{} X is {}; square matrices are wanted in its last two axes", place, to_string(x));
    return {output_spec(in[0].dtype, {x.begin(), x.end() - 2}, place)};
  }

  void forward(Context& c) const override {
    const Index n = c.input(0).shape().back();
    const auto x = c.input(0).values<double>(), y = c.output(0).values<double>();
    for (size_t i = 0; i < y.size(); ++i) {
      const auto matrix = x.subspan(i * static_cast<size_t>(n * n), static_cast<size_t>(n * n));
      y[i] = determinant({matrix.begin(), matrix.end()}, n);
    }
  }

  Cost cost(SpecSpan in, Pass) const override {
    const double n = static_cast<double>(in[0].shape.back()), matrices = static_cast<double>(infer(in)[0].elements());
    return {matrices * 2 * n * n * n / 3, in[0].bytes() + infer(in)[0].bytes()};
  }

  Rounding rounding(SpecSpan in, Pass, size_t) const override {
    const auto n = static_cast<double>(in[0].shape.back());
    return {.terms = n * n, .units = n};
  }

  // Hadamard: the product of the norms of the rows.
  Tensor magnitude(const Context& c, Pass, size_t) const override {
    const Index n = c.input(0).shape().back();
    const auto x = c.input(0).values<double>();
    Tensor scale(DType::f64, c.output(0).shape());
    Index row = 0;
    for (double& product : scale.values<double>()) {
      product = 1;
      for (Index i = 0; i < n; ++i, ++row) {
        double sum = 0;
        for (Index j = 0; j < n; ++j) sum += x[row * n + j] * x[row * n + j];
        product *= std::sqrt(sum);
      }
    }
    return scale;
  }

  static std::vector<Parameter> parameters() { return {{"shape", "shape of X", "64x16x16"}}; }

  static OperatorCase describe(const Attributes& v, DType type) {
    return {.inputs = {{.spec = {type, parse_shape(v.text("shape", ""))}, .differentiable = false}}};
  }

  static std::vector<Attributes> cases() { return {{{"shape", "2x2"}}, {{"shape", "3x2x4x4"}}, {{"shape", "5x1x1"}}}; }

 private:
  static double determinant(std::vector<double> a, Index n) {
    double product = 1;
    for (Index column = 0; column < n; ++column) {
      Index pivot = column;
      for (Index row = column + 1; row < n; ++row)
        if (std::abs(a[row * n + column]) > std::abs(a[pivot * n + column])) pivot = row;
      if (a[pivot * n + column] == 0) return 0;
      if (pivot != column) {
        for (Index j = 0; j < n; ++j) std::swap(a[pivot * n + j], a[column * n + j]);
        product = -product;
      }
      product *= a[column * n + column];
      for (Index row = column + 1; row < n; ++row) {
        const double factor = a[row * n + column] / a[column * n + column];
        for (Index j = column; j < n; ++j) a[row * n + j] -= factor * a[column * n + j];
      }
    }
    return product;
  }
};

}  // namespace
D5_REGISTER(operators, "Det", Det);
}  // namespace d5
