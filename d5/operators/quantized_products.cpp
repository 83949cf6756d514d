// SPDX-License-Identifier: Apache-2.0
// Products of quantised tensors. Each is Conv or MatMul of what stands for integers, x - z with a zero point z; sums of
// products of 8-bit integers are exact in double. No gradient.
//   ConvInteger, MatMulInteger   Y = product of (a - z_a) and (b - z_b), as i32
//   QLinearConv, QLinearMatMul   y = saturate(round(product s_a s_b / s_y) + z_y); the factor is rounded to the scales'
//                                type step by step. QLinearConv's bias is added to the product
// A zero point and a scale serve all of a tensor, or each row of A, column of B, or output channel of W.
#include <cmath>

#include "d5/operators/broadcast.hpp"
#include "d5/operators/exact.hpp"
#include "d5/operators/narrow_float.hpp"
#include "d5/operators/window.hpp"

namespace d5 {
namespace {

Tensor wide(const Tensor& t) { return t.dtype() == DType::f64 ? t : t.cast(DType::f64); }

class QuantizedProduct : public Exact {
 public:
  QuantizedProduct(const Attributes& a, const char* product, bool requantized, std::string_view place)
      : place_(place), requantized_(requantized), convolution_(std::string_view(product) == "Conv") {
    product_ = registered<operators>(product).make(a);
    if (requantized)
      in_ = {.a = 0, .b = 3, .zero_a = 2, .zero_b = 5, .bias = 8, .most = convolution_ ? 9u : 8u, .least = 8};
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, in_.least, in_.most, place_);
    for (const size_t i : {in_.a, in_.b})
      if (requantized_ && !convolution_)
        check_type(in[i], {DType::i8, DType::u8, DType::f8e4m3fn, DType::f8e4m3fnuz, DType::f8e5m2, DType::f8e5m2fnuz},
                   place_);
      else
        check_type(in[i], {DType::i8, DType::u8}, place_);
    std::vector<TensorSpec> factors{{DType::f32, in[in_.a].shape}, {DType::f32, in[in_.b].shape}};
    if (has(in, in_.bias)) factors.push_back({DType::f32, in[in_.bias].shape});
    const Shape y = product_->infer(factors)[0].shape;
    if (has(in, in_.zero_a)) spread_shape(in[in_.zero_a].shape, in[in_.a].shape, true);
    if (has(in, in_.zero_b)) spread_shape(in[in_.zero_b].shape, in[in_.b].shape, false);
    if (requantized_) {
      check_broadcast_to(result_shape(in[1].shape, y, true), y, "a scale", place_);
      check_broadcast_to(result_shape(in[4].shape, y, false), y, "a scale", place_);
      for (const size_t i : {6, 7})
        if (in[i].shape.elements() != 1)
          throw Error("{} {} of the result is {}; one number is wanted", place_,
                      i == 6 ? "the scale" : "the zero point", to_string(in[i].shape));
    }
    return {{requantized_ ? in[7].dtype : DType::i32, y}};
  }

  void forward(Context& c) const override {
    Context inner;
    inner.inputs.push_back(centred(c.input(in_.a), c.input(in_.zero_a), true));
    inner.inputs.push_back(centred(c.input(in_.b), c.input(in_.zero_b), false));
    if (c.input(in_.bias).present()) inner.inputs.push_back(wide(c.input(in_.bias)));
    inner.outputs.emplace_back(DType::f64, c.output(0).shape());
    product_->forward(inner);
    const auto sums = inner.output(0).values<double>();
    if (!requantized_) {
      const auto y = c.output(0).values<int32_t>();  // more than 32 bits wrap around
      for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<int32_t>(static_cast<int64_t>(sums[i]));
      return;
    }
    const Tensor scale_a = wide(c.input(1)), scale_b = wide(c.input(4)), scale_y = wide(c.input(6));
    const Tensor zero = wide(c.input(7));
    const Shape& shape = c.output(0).shape();
    const Broadcast at_a(result_shape(scale_a.shape(), shape, true), shape);
    const Broadcast at_b(result_shape(scale_b.shape(), shape, false), shape);
    const DType type = c.input_type(1), to = c.input_type(7);
    for (size_t i = 0; i < sums.size(); ++i) {
      const auto at = static_cast<Index>(i);
      const double product = rounded_to(type, scale_a.values<double>()[at_a(at)] * scale_b.values<double>()[at_b(at)]);
      const double value = sums[i] * rounded_to(type, product / scale_y.values<double>()[0]);
      const double z = zero.values<double>()[0];
      sums[i] = is_float(to) ? within_float8(to, value + z, true) : std::nearbyint(value) + z;
    }
    c.output(0).copy_from(is_float(to) ? inner.output(0) : inner.output(0).cast(c.output(0).dtype()));
  }

  Cost cost(SpecSpan in, Pass) const override {
    const std::vector<TensorSpec> factors{{DType::f32, in[in_.a].shape}, {DType::f32, in[in_.b].shape}};
    return {product_->cost(factors, Pass::forward).flops, input_bytes(in) + infer(in)[0].bytes()};
  }

 protected:
  // The inputs of a case, in ONNX's order.
  static OperatorCase described(const Shape& a, const Shape& b, Index channels, bool requantized, bool convolution) {
    const auto integers = [](DType type, const Shape& shape, double low, double high) {
      return OperatorInput{.spec = {type, shape}, .low = low, .high = high, .differentiable = false};
    };
    const auto scale = [](const Shape& shape) {
      return OperatorInput{.spec = {DType::f32, shape}, .low = 0.01, .high = 0.02, .differentiable = false};
    };
    const Shape per_column = requantized ? Shape{channels} : Shape{};
    const OperatorInput x = integers(DType::u8, a, 0, 255), x_zero = integers(DType::u8, {}, 120, 136),
                        w = integers(DType::i8, b, -128, 127), w_zero = integers(DType::i8, per_column, -4, 4);
    if (!requantized) return {.inputs = {x, w, x_zero, w_zero}};
    OperatorCase one{
        .inputs = {x, scale({}), x_zero, w, scale(per_column), w_zero, scale({}), integers(DType::i8, {}, -9, 9)}};
    if (convolution) one.inputs.push_back(integers(DType::i32, {channels}, -1000, 1000));
    return one;
  }

 private:
  struct Inputs {
    size_t a = 0, b = 1, zero_a = 2, zero_b = 3, bias = 99, most = 4, least = 2;
  };

  // The shape in which a zero point is read along a factor: a list belongs to the rows of A, the columns of B, the
  // output channels of W.
  Shape spread_shape(const Shape& zero, const Shape& factor, bool is_a) const {
    if (zero.rank() != 1 || zero[0] == 1) {
      if (zero.elements() == 1) return {};
      check_broadcast_to(zero, factor, "a zero point", place_);
      return zero;
    }
    std::vector<Index> sizes(factor.rank(), 1);
    const size_t axis = convolution_ ? (is_a ? factor.rank() : 0) : is_a ? factor.rank() - 2 : factor.rank() - 1;
    if (axis >= factor.rank() || factor[axis] != zero[0])
      throw Error("{} a zero point is {}, which belongs to no axis of {}", place_, to_string(zero), to_string(factor));
    sizes[axis] = zero[0];
    return Shape(std::move(sizes));
  }

  // The same for a scale, along the result.
  Shape result_shape(const Shape& scale, const Shape& y, bool is_a) const {
    if (scale.elements() == 1) return {};
    if (scale.rank() != 1) return scale;
    const size_t from_end = is_a ? 2 : 1;
    if (!convolution_ && y.rank() < from_end)
      throw Error("{} a scale is {}, which belongs to no axis of {}", place_, to_string(scale), to_string(y));
    std::vector<Index> sizes(y.rank(), 1);
    sizes[convolution_ ? 1 : y.rank() - from_end] = scale[0];
    return Shape(std::move(sizes));
  }

  Tensor centred(const Tensor& factor, const Tensor& zero, bool is_a) const {
    Tensor all = wide(factor).clone();
    if (!zero.present()) return all;
    const Tensor zeros = wide(zero);
    const Broadcast at(spread_shape(zero.shape(), factor.shape(), is_a), factor.shape());
    const auto values = all.values<double>();
    for (size_t i = 0; i < values.size(); ++i) values[i] -= zeros.values<double>()[at(static_cast<Index>(i))];
    return all;
  }

  std::string_view place_;
  bool requantized_, convolution_;
  Inputs in_;
  std::unique_ptr<Operator> product_;
};

template <bool requantized>
class IntegerConv final : public QuantizedProduct {
 public:
  explicit IntegerConv(const Attributes& a)
      : QuantizedProduct(a, "Conv", requantized, requantized ? "[qlinear_conv]" : "[conv_integer]") {}

  static std::vector<Parameter> parameters() {
    std::vector<Parameter> all{{"n", "images", 16},
                               {"c", "input channels", 64},
                               {"size", "input sizes", "56x56"},
                               {"k", "output channels", 64},
                               {"filter", "filter sizes", "3x3"}};
    for (Parameter& parameter : window_parameters()) all.push_back(std::move(parameter));
    return all;
  }

  static OperatorCase describe(const Attributes& v, DType) {
    const auto size = window_sizes(v, "size"), kernel = sizes(v, "filter", size.size());
    std::vector<Index> x{v.integer("n", 0), v.integer("c", 0)}, w{v.integer("k", 0), v.integer("c", 0)};
    x.insert(x.end(), size.begin(), size.end());
    w.insert(w.end(), kernel.begin(), kernel.end());
    OperatorCase one = described(Shape(x), Shape(w), w[0], requantized, true);
    one.attributes = window_attributes(v, size.size());
    return one;
  }

  static std::vector<Attributes> cases() {
    return {{{"n", 1}, {"c", 1}, {"size", "3x3"}, {"k", 1}, {"filter", "2x2"}},
            {{"n", 2}, {"c", 3}, {"size", "7x5"}, {"k", 4}, {"filter", "3x3"}, {"pad", "1"}, {"stride", "2"}}};
  }
};

template <bool requantized>
class IntegerMatMul final : public QuantizedProduct {
 public:
  explicit IntegerMatMul(const Attributes& a)
      : QuantizedProduct(a, "MatMul", requantized, requantized ? "[qlinear_matmul]" : "[matmul_integer]") {}

  static std::vector<Parameter> parameters() {
    return {{"a", "shape of A", "128x256"}, {"b", "shape of B", "256x128"}};
  }

  static OperatorCase describe(const Attributes& v, DType) {
    const Shape a = parse_shape(v.text("a", "")), b = parse_shape(v.text("b", ""));
    return described(a, b, b.rank() == 0 ? 1 : b.back(), requantized, false);
  }

  static std::vector<Attributes> cases() { return {{{"a", "4x3"}, {"b", "3x2"}}, {{"a", "2x5x7"}, {"b", "7x4"}}}; }
};

}  // namespace
D5_REGISTER(operators, "ConvInteger", IntegerConv<false>);
D5_REGISTER(operators, "QLinearConv", IntegerConv<true>);
D5_REGISTER(operators, "MatMulInteger", IntegerMatMul<false>);
D5_REGISTER(operators, "QLinearMatMul", IntegerMatMul<true>);
}  // namespace d5
