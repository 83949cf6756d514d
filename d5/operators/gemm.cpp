// SPDX-License-Identifier: Apache-2.0
// General matrix multiplication (ONNX Gemm). A' is A or its transpose, B' likewise; C is broadcast to the result.
//   Y   = alpha A' B' + beta C
//   dA' = alpha dY B'^T      dB' = alpha A'^T dY      dC = beta (dY summed over the axes along which C is broadcast)
#include <cmath>

#include "d5/operators/broadcast.hpp"
#include "d5/operators/checks.hpp"
#include "d5/operators/magnitude.hpp"
#include "d5/operators/operator.hpp"
#include "d5/operators/product.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[gemm]";

class Gemm final : public Operator {
 public:
  explicit Gemm(const Attributes& a)
      : alpha_(a.real("alpha", 1)),
        beta_(a.real("beta", 1)),
        trans_a_(a.flag("transA", false)),
        trans_b_(a.flag("transB", false)) {
    check_attributes(a, {"alpha", "beta", "transA", "transB"}, place);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 2, 3, place);
    check_same_type(in, place);
    check_type(in[0], {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64, DType::u32, DType::u64},
               place);
    check_rank(in[0], "A", 2, place);
    check_rank(in[1], "B", 2, place);
    const Sizes s = sizes_of(in[0].shape, in[1].shape);
    if (const Index inner = in[1].shape[trans_b_ ? 1 : 0]; s.k != inner)
      throw Error("{} A is {}{} and B is {}{}: inner sizes {} and {} differ", place, to_string(in[0].shape),
                  trans_a_ ? " transposed" : "", to_string(in[1].shape), trans_b_ ? " transposed" : "", s.k, inner);
    if (is_integer(in[0].dtype) && (alpha_ != std::floor(alpha_) || beta_ != std::floor(beta_)))
      throw Error("{} alpha {} and beta {} must be whole numbers for {}", place, alpha_, beta_, name(in[0].dtype));
    TensorSpec y = output_spec(in[0].dtype, {s.m, s.n}, place);
    if (has(in, 2)) check_broadcast_to(in[2].shape, y.shape, "C", place);
    return {y};
  }

  void forward(Context& c) const override {
    with_compute_type(c.output(0).dtype(), [&]<class T>() { forward_in<T>(c); });
  }

  void backward(Context& c) const override {
    const auto [m, n, k] = sizes_of(c.input(0).shape(), c.input(1).shape());
    const double* dy = c.output_gradient(0).values<double>().data();
    const Matrix<double> dy_plain = matrix(dy, n, false), a = matrix_a<double>(c), b = matrix_b<double>(c);
    if (c.input_gradient(0).present()) {
      const auto da = cleared(c.input_gradient(0));
      if (trans_a_)
        add_product(b, dy_plain.transposed(), k, m, n, da.data());
      else
        add_product(dy_plain, b.transposed(), m, k, n, da.data());
      for (double& value : da) value *= alpha_;
    }
    if (c.input_gradient(1).present()) {
      const auto db = cleared(c.input_gradient(1));
      if (trans_b_)
        add_product(dy_plain.transposed(), a, n, k, m, db.data());
      else
        add_product(a.transposed(), dy_plain, k, n, m, db.data());
      for (double& value : db) value *= alpha_;
    }
    if (c.input_gradient(2).present()) {
      const auto dc = cleared(c.input_gradient(2));
      const Broadcast at(c.input_gradient(2).shape(), c.output_gradient(0).shape());
      for (Index i = 0; i < m * n; ++i) dc[at(i)] += dy[i];
      for (double& value : dc) value *= beta_;
    }
  }

  bool forward_at(const Context& c, size_t, std::span<const Index> at, std::span<double> values) const override {
    with_compute_type(c.input(0).dtype(), [&]<class T>() {
      const auto [m, n, k] = sizes_of(c.input(0).shape(), c.input(1).shape());
      const Addend<T> addend(*this, c, {m, n});
      const auto products = products_at(matrix_a<T>(c), matrix_b<T>(c), places(at, n, false), k);
      for (size_t i = 0; i < at.size(); ++i) values[i] = static_cast<double>(addend(at[i], products[i]));
    });
    return true;
  }

  bool backward_at(const Context& c, size_t input, std::span<const Index> at, std::span<double> values) const override {
    const auto [m, n, k] = sizes_of(c.input(0).shape(), c.input(1).shape());
    const double* dy = c.output_gradient(0).values<double>().data();
    const Matrix<double> dy_plain = matrix(dy, n, false), a = matrix_a<double>(c), b = matrix_b<double>(c);
    if (input < 2) {
      const auto where = places(at, c.input(input).shape()[1], input == 0 ? trans_a_ : trans_b_);
      const auto products = input == 0 ? products_at(dy_plain, b.transposed(), where, n)
                                       : products_at(a.transposed(), dy_plain, where, m);
      for (size_t i = 0; i < at.size(); ++i) values[i] = alpha_ * products[i];
    } else {  // few elements or few terms each: the whole sum is cheap
      std::vector<double> dc(static_cast<size_t>(c.input(2).elements()));
      const Broadcast to(c.input(2).shape(), {m, n});
      for (Index i = 0; i < m * n; ++i) dc[to(i)] += dy[i];
      for (size_t i = 0; i < at.size(); ++i) values[i] = beta_ * dc[at[i]];
    }
    return true;
  }

  Cost cost(SpecSpan in, Pass pass) const override {
    const auto [m, n, k] = sizes_of(in[0].shape, in[1].shape);
    const double product = 2.0 * m * n * k, y_bytes = infer(in)[0].bytes();
    const double plus_c = has(in, 2) ? 1.0 * m * n : 0;
    if (pass == Pass::forward) return {product + plus_c, input_bytes(in) + y_bytes};
    const double c_bytes = has(in, 2) ? in[2].bytes() : 0;  // written, not read
    return {2 * product + plus_c, 2 * (in[0].bytes() + in[1].bytes()) + y_bytes + c_bytes};
  }

  Rounding rounding(SpecSpan in, Pass pass, size_t index) const override {
    const auto [m, n, k] = sizes_of(in[0].shape, in[1].shape);
    const auto halves = [](double v) { return 2 * v == std::floor(2 * v); };
    Rounding r{.terms = 1.0 * k, .units = 3, .exact = halves(alpha_) && halves(beta_)};
    if (pass == Pass::backward && index == 0) r.terms = 1.0 * n;
    if (pass == Pass::backward && index == 1) r.terms = 1.0 * m;
    if (pass == Pass::backward && index == 2) r.terms = 1.0 * m * n / std::max<Index>(1, in[2].elements());
    return r;
  }

  // With alpha and beta >= 0 the operator on absolute values is the scale. Otherwise |alpha| and |beta| take their
  // place.
  Tensor magnitude(const Context& c, Pass pass, size_t index) const override {
    if (alpha_ >= 0 && beta_ >= 0) return {};
    Gemm absolute = *this;
    absolute.alpha_ = std::abs(alpha_);
    absolute.beta_ = std::abs(beta_);
    return evaluate_on_absolute_values(absolute, c, pass, index);
  }

  static std::vector<Parameter> parameters() {
    return {{"m", "rows of Y", 512},
            {"n", "columns of Y", 512},
            {"k", "length of the sums", 512},
            {"trans_a", "A is stored k x m", false},
            {"trans_b", "B is stored n x k", false},
            {"alpha", "factor of the product", 1.0},
            {"beta", "factor of C", 1.0},
            {"bias", "add C, a vector of n", true}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    const Index m = v.integer("m", 0), n = v.integer("n", 0), k = v.integer("k", 0);
    const bool trans_a = v.flag("trans_a", false), trans_b = v.flag("trans_b", false);
    OperatorCase one;
    one.inputs.push_back({.spec = {type, trans_a ? Shape{k, m} : Shape{m, k}}});
    one.inputs.push_back({.spec = {type, trans_b ? Shape{n, k} : Shape{k, n}}, .parameter = true});
    if (v.flag("bias", true)) one.inputs.push_back({.spec = {type, Shape{n}}, .parameter = true});
    one.attributes = {{"transA", int64_t{trans_a}},
                      {"transB", int64_t{trans_b}},
                      {"alpha", v.real("alpha", 1)},
                      {"beta", v.real("beta", 1)}};
    return one;
  }

  static std::vector<Attributes> cases() {
    return {{{"m", 1}, {"n", 1}, {"k", 1}},
            {{"m", 2}, {"n", 3}, {"k", 4}, {"bias", false}},
            {{"m", 7}, {"n", 5}, {"k", 3}, {"trans_a", true}},
            {{"m", 5}, {"n", 17}, {"k", 9}, {"trans_b", true}, {"alpha", 0.5}, {"beta", 2.0}},
            {{"m", 6}, {"n", 4}, {"k", 11}, {"trans_a", true}, {"trans_b", true}, {"alpha", -1.0}},
            {{"m", 1}, {"n", 33}, {"k", 65}},
            {{"m", 31}, {"n", 1}, {"k", 127}, {"trans_b", true}},
            {{"m", 3}, {"n", 2}, {"k", 1025}, {"alpha", 1.5}, {"beta", -0.5}},
            {{"m", 64}, {"n", 120}, {"k", 256}, {"trans_b", true}}};
  }

 private:
  // Flat indices of a matrix of `columns` columns; of a transposed one the places in its transpose.
  static std::vector<Place> places(std::span<const Index> at, Index columns, bool transposed) {
    std::vector<Place> all;
    for (const Index i : at)
      all.push_back(transposed ? Place{i % columns, i / columns} : Place{i / columns, i % columns});
    return all;
  }

  struct Sizes {
    Index m, n, k;
  };
  Sizes sizes_of(const Shape& a, const Shape& b) const {
    return {a[trans_a_ ? 1 : 0], b[trans_b_ ? 0 : 1], a[trans_a_ ? 0 : 1]};
  }
  template <class T>
  Matrix<T> matrix_a(const Context& c) const {
    return matrix<T>(c.input(0).values<T>().data(), c.input(0).shape()[1], trans_a_);
  }
  template <class T>
  Matrix<T> matrix_b(const Context& c) const {
    return matrix<T>(c.input(1).values<T>().data(), c.input(1).shape()[1], trans_b_);
  }

  // alpha * sum + beta * C[i]
  template <class T>
  struct Addend {
    Addend(const Gemm& gemm, const Context& c, const Shape& y)
        : alpha(factor(gemm.alpha_)),
          beta(factor(gemm.beta_)),
          to(c.input(2).present() ? c.input(2).shape() : Shape{}, y) {
      if (c.input(2).present()) data = c.input(2).values<T>().data();
    }
    T operator()(Index i, T sum) const {
      const T scaled = multiply_add(T{}, alpha, sum);
      return data ? multiply_add(scaled, beta, data[to(i)]) : scaled;
    }
    static T factor(double value) {
      if constexpr (std::is_integral_v<T>)
        return static_cast<T>(static_cast<int64_t>(value));
      else
        return value;
    }
    T alpha, beta;
    const T* data = nullptr;
    Broadcast to;
  };

  template <class T>
  void forward_in(Context& c) const {
    const auto [m, n, k] = sizes_of(c.input(0).shape(), c.input(1).shape());
    const auto y = c.output(0).values<T>();
    std::ranges::fill(y, T{});
    add_product(matrix_a<T>(c), matrix_b<T>(c), m, n, k, y.data());
    const Addend<T> addend(*this, c, {m, n});
    for (size_t i = 0; i < y.size(); ++i) y[i] = addend(static_cast<Index>(i), y[i]);
  }

  double alpha_, beta_;
  bool trans_a_, trans_b_;
};

}  // namespace
D5_REGISTER(operators, "Gemm", Gemm);
}  // namespace d5
