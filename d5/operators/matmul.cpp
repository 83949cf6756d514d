// SPDX-License-Identifier: Apache-2.0
// Matrix product of stacks of matrices (ONNX MatMul, numpy's matmul). Leading axes are broadcast; a vector on the left
// is a row, on the right a column, and its axis is dropped from the result.
//   Y  = A B
//   dA = dY B^T      dB = A^T dY      each summed over the leading axes along which it is broadcast
#include "d5/operators/broadcast.hpp"
#include "d5/operators/checks.hpp"
#include "d5/operators/magnitude.hpp"
#include "d5/operators/operator.hpp"
#include "d5/operators/product.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[matmul]";

// Both operands as stacks of matrices: for each matrix of the result, which one of A and of B it multiplies.
struct Stacks {
  Stacks(const Shape& a, const Shape& b)
      : m(a.rank() == 1 ? 1 : a[a.rank() - 2]),
        n(b.rank() == 1 ? 1 : b.back()),
        k(a.back()),
        batch(broadcast(leading(a), leading(b), place)),
        count(batch.elements()),
        of_a(leading(a), batch),
        of_b(leading(b), batch) {}

  static Shape leading(const Shape& s) {
    return s.rank() <= 2 ? Shape{} : Shape(std::vector<Index>(s.begin(), s.end() - 2));
  }
  Index offset_a(Index i) const { return of_a(i) * m * k; }
  Index offset_b(Index i) const { return of_b(i) * k * n; }

  Index m, n, k;
  Shape batch;
  Index count;
  Broadcast of_a, of_b;
};

class MatMul final : public Operator {
 public:
  explicit MatMul(const Attributes& a) { check_attributes(a, {}, place); }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 2, 2, place);
    check_same_type(in, place);
    check_type(in[0], {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64, DType::u32, DType::u64},
               place);
    const Shape &a = in[0].shape, &b = in[1].shape;
    if (a.rank() == 0 || b.rank() == 0)
      throw Error("{} A is {} and B is {}: both need at least one axis", place, to_string(a), to_string(b));
    if (const Index inner = b.rank() == 1 ? b[0] : b[b.rank() - 2]; a.back() != inner)
      throw Error("{} A is {} and B is {}: inner sizes {} and {} differ", place, to_string(a), to_string(b), a.back(),
                  inner);
    const Stacks s(a, b);
    std::vector<Index> sizes = s.batch.sizes();
    if (a.rank() > 1) sizes.push_back(s.m);
    if (b.rank() > 1) sizes.push_back(s.n);
    return {output_spec(in[0].dtype, std::move(sizes), place)};
  }

  void forward(Context& c) const override {
    const Stacks s(c.input(0).shape(), c.input(1).shape());
    with_compute_type(c.output(0).dtype(), [&]<class T>() {
      const auto y = c.output(0).values<T>();
      std::ranges::fill(y, T{});
      for (Index i = 0; i < s.count; ++i)
        add_product(matrix_a<T>(s, c, i), matrix_b<T>(s, c, i), s.m, s.n, s.k, y.data() + i * s.m * s.n);
    });
  }

  void backward(Context& c) const override {
    const Stacks s(c.input(0).shape(), c.input(1).shape());
    const auto da = c.input_gradient(0).present() ? cleared(c.input_gradient(0)) : std::span<double>();
    const auto db = c.input_gradient(1).present() ? cleared(c.input_gradient(1)) : std::span<double>();
    for (Index i = 0; i < s.count; ++i) {
      const Matrix<double> dy = gradient(s, c, i), a = matrix_a<double>(s, c, i), b = matrix_b<double>(s, c, i);
      if (!da.empty()) add_product(dy, b.transposed(), s.m, s.k, s.n, da.data() + s.offset_a(i));
      if (!db.empty()) add_product(a.transposed(), dy, s.k, s.n, s.m, db.data() + s.offset_b(i));
    }
  }

  bool forward_at(const Context& c, size_t, std::span<const Index> at, std::span<double> values) const override {
    const Stacks s(c.input(0).shape(), c.input(1).shape());
    with_compute_type(c.input(0).dtype(), [&]<class T>() {
      for (size_t i = 0; i < at.size(); ++i) {
        const Index matrix = at[i] / (s.m * s.n), rest = at[i] % (s.m * s.n);
        values[i] = static_cast<double>(
            product_at(matrix_a<T>(s, c, matrix), matrix_b<T>(s, c, matrix), rest / s.n, rest % s.n, s.k));
      }
    });
    return true;
  }

  bool backward_at(const Context& c, size_t input, std::span<const Index> at, std::span<double> values) const override {
    const Stacks s(c.input(0).shape(), c.input(1).shape());
    const Index size = input == 0 ? s.m * s.k : s.k * s.n, columns = input == 0 ? s.k : s.n;
    for (size_t i = 0; i < at.size(); ++i) {
      const Index start = at[i] / size * size, row = at[i] % size / columns, column = at[i] % columns;
      values[i] = 0;
      for (Index j = 0; j < s.count; ++j) {
        if ((input == 0 ? s.offset_a(j) : s.offset_b(j)) != start) continue;
        const Matrix<double> dy = gradient(s, c, j), a = matrix_a<double>(s, c, j), b = matrix_b<double>(s, c, j);
        values[i] += input == 0 ? product_at(dy, b.transposed(), row, column, s.n)
                                : product_at(a.transposed(), dy, row, column, s.m);
      }
    }
    return true;
  }

  Cost cost(SpecSpan in, Pass pass) const override {
    const Stacks s(in[0].shape, in[1].shape);
    const double product = 2.0 * s.count * s.m * s.n * s.k, y_bytes = infer(in)[0].bytes();
    if (pass == Pass::forward) return {product, input_bytes(in) + y_bytes};
    return {2 * product, 2 * input_bytes(in) + y_bytes};
  }

  Rounding rounding(SpecSpan in, Pass pass, size_t index) const override {
    const Stacks s(in[0].shape, in[1].shape);
    if (pass == Pass::forward) return {.terms = 1.0 * s.k, .exact = true};
    // Every multiplication of the pass ends in one of the elements of this gradient.
    const double elements = std::max<double>(1, in[index].elements());
    return {.terms = 1.0 * s.count * s.m * s.n * s.k / elements, .exact = true};
  }

  static std::vector<Parameter> parameters() {
    return {{"a", "shape of A", "8x128x64"}, {"b", "shape of B", "8x64x128"}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    return {.inputs = {{.spec = {type, parse_shape(v.text("a", ""))}},
                       {.spec = {type, parse_shape(v.text("b", ""))}, .parameter = true}}};
  }

  static std::vector<Attributes> cases() {
    return {
        {{"a", "1x1"}, {"b", "1x1"}},        {{"a", "3x4"}, {"b", "4x5"}},         {{"a", "7"}, {"b", "7"}},
        {{"a", "7"}, {"b", "7x3"}},          {{"a", "2x5x7"}, {"b", "7"}},         {{"a", "2x3x4x5"}, {"b", "2x3x5x6"}},
        {{"a", "3x5x9"}, {"b", "9x4"}},      {{"a", "4x1x3x5"}, {"b", "1x2x5x3"}}, {{"a", "5x1x257"}, {"b", "5x257x2"}},
        {{"a", "4x64x32"}, {"b", "4x32x64"}}};
  }

 private:
  template <class T>
  static Matrix<T> matrix_a(const Stacks& s, const Context& c, Index i) {
    return matrix<T>(c.input(0).values<T>().data() + s.offset_a(i), s.k, false);
  }
  template <class T>
  static Matrix<T> matrix_b(const Stacks& s, const Context& c, Index i) {
    return matrix<T>(c.input(1).values<T>().data() + s.offset_b(i), s.n, false);
  }
  static Matrix<double> gradient(const Stacks& s, const Context& c, Index i) {
    return matrix<double>(c.output_gradient(0).values<double>().data() + i * s.m * s.n, s.n, false);
  }
};

}  // namespace
D5_REGISTER(operators, "MatMul", MatMul);
}  // namespace d5
