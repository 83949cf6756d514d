// SPDX-License-Identifier: Apache-2.0
// Elementwise sum with numpy's broadcasting (ONNX Add).
//   Y = A + B      dA = dY summed over the axes along which A is broadcast, dB likewise
#include "d5/core/parallel.hpp"
#include "d5/operators/broadcast.hpp"
#include "d5/operators/checks.hpp"
#include "d5/operators/magnitude.hpp"
#include "d5/operators/operator.hpp"
#include "d5/operators/product.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[add]";

class Add final : public Operator {
 public:
  explicit Add(const Attributes& a) { check_attributes(a, {}, place); }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 2, 2, place);
    check_same_type(in, place);
    check_type(in[0],
               {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8, DType::i16, DType::i32, DType::i64,
                DType::u8, DType::u16, DType::u32, DType::u64},
               place);
    return {output_spec(in[0].dtype, broadcast(in[0].shape, in[1].shape, place).sizes(), place)};
  }

  void forward(Context& c) const override {
    const Shape& shape = c.output(0).shape();
    const Broadcast at_a(c.input(0).shape(), shape), at_b(c.input(1).shape(), shape);
    with_compute_type(c.output(0).dtype(), [&]<class T>() {
      const auto a = c.input(0).values<T>(), b = c.input(1).values<T>(), y = c.output(0).values<T>();
      parallel_for(shape.elements(), 1 << 16, [&](Index first, Index last) {
        for (Index i = first; i < last; ++i) y[i] = multiply_add(a[at_a(i)], T{1}, b[at_b(i)]);
      });
    });
  }

  void backward(Context& c) const override {
    const auto dy = c.output_gradient(0).values<double>();
    for (const size_t input : {0, 1}) {
      if (!c.input_gradient(input).present()) continue;
      const auto dx = cleared(c.input_gradient(input));
      const Broadcast at(c.input_gradient(input).shape(), c.output_gradient(0).shape());
      for (size_t i = 0; i < dy.size(); ++i) dx[at(static_cast<Index>(i))] += dy[i];
    }
  }

  Cost cost(SpecSpan in, Pass pass) const override {
    const TensorSpec y = infer(in)[0];
    if (pass == Pass::forward) return {1.0 * y.elements(), input_bytes(in) + y.bytes()};
    double flops = 0;  // a gradient of the result's own shape is a copy
    for (const TensorSpec& spec : in) flops += static_cast<double>(y.elements() - spec.elements());
    return {flops, y.bytes() + input_bytes(in)};
  }

  Rounding rounding(SpecSpan in, Pass pass, size_t index) const override {
    if (pass == Pass::forward) return {.terms = 1, .units = 0, .exact = true};
    const double elements = std::max<double>(1, in[index].elements());
    return {.terms = static_cast<double>(infer(in)[0].elements()) / elements - 1, .units = 0, .exact = true};
  }

  static std::vector<Parameter> parameters() {
    return {{"a", "shape of A", "64x256x14x14"}, {"b", "shape of B", "64x256x14x14"}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    return {.inputs = {{.spec = {type, parse_shape(v.text("a", ""))}}, {.spec = {type, parse_shape(v.text("b", ""))}}}};
  }

  static std::vector<Attributes> cases() {
    return {{{"a", "1"}, {"b", "1"}},
            {{"a", "scalar"}, {"b", "5"}},
            {{"a", "3x4x5"}, {"b", "3x4x5"}},
            {{"a", "3x4x5"}, {"b", "5"}},
            {{"a", "4x5"}, {"b", "2x3x4x5"}},
            {{"a", "3x1x5"}, {"b", "1x7x1"}},
            {{"a", "2x3x1x1"}, {"b", "2x3x7x5"}},
            {{"a", "17x31"}, {"b", "17x1"}},
            {{"a", "6x3001"}, {"b", "3001"}},
            {{"a", "8x64x14x14"}, {"b", "8x64x14x14"}}};
  }
};

}  // namespace
D5_REGISTER(operators, "Add", Add);
}  // namespace d5
