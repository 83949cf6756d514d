// SPDX-License-Identifier: Apache-2.0
// A choice with numpy's broadcasting (ONNX Where).
//   y = x where the condition holds, else z      dx = dy there, dz = dy elsewhere, summed where they are broadcast
#include "d5/operators/elementwise.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[where]";

class Where final : public Operator {
 public:
  explicit Where(const Attributes& a) { check_attributes(a, {}, place); }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 3, 3, place);
    check_type(in[0], bool_types, place);
    check_same_type(in.last(2), place);
    check_type(in[1],
               {DType::f32, DType::f64, DType::f16, DType::bf16, DType::boolean, DType::i8, DType::i16, DType::i32,
                DType::i64, DType::u8, DType::u16, DType::u32, DType::u64, DType::string},
               place);
    const Shape choices = broadcast(in[1].shape, in[2].shape, place);
    return {output_spec(in[1].dtype, broadcast(in[0].shape, choices, place).sizes(), place)};
  }

  void forward(Context& c) const override {
    const Shape& shape = c.output(0).shape();
    const Broadcast at_if(c.input(0).shape(), shape), at_x(c.input(1).shape(), shape), at_z(c.input(2).shape(), shape);
    with_element_type(c.output(0).dtype(), [&]<class T>() {
      const auto condition = c.input(0).values<bool>();
      const auto x = c.input(1).values<T>(), z = c.input(2).values<T>(), y = c.output(0).values<T>();
      for_each_element(shape.elements(), [&](Index i) { y[i] = condition[at_if(i)] ? x[at_x(i)] : z[at_z(i)]; });
    });
  }

  void backward(Context& c) const override {
    for (const size_t input : {1, 2})
      if (c.input_gradient(input).present()) route(c, input, c.input_gradient(input), [](double dy) { return dy; });
  }

  Cost cost(SpecSpan in, Pass pass) const override {
    const TensorSpec y = infer(in)[0];
    const double elements = static_cast<double>(y.elements());
    if (pass == Pass::forward) return {elements, input_bytes(in) + y.bytes()};
    return {2 * elements, y.bytes() + input_bytes(in)};  // reads dy and the condition, writes dx and dz
  }

  Rounding rounding(SpecSpan in, Pass pass, size_t index) const override {
    if (pass == Pass::forward) return {.terms = 0, .units = 0, .exact = true};
    return {.terms = readers(in[index], infer(in)[0]) - 1, .units = 0, .exact = true};
  }

  Tensor magnitude(const Context& c, Pass pass, size_t index) const override {
    if (pass == Pass::forward) return c.output(0).cast(DType::f64);
    Tensor scale(DType::f64, c.input(index).shape());
    if (index != 0) route(c, index, scale, [](double dy) { return std::abs(dy); });
    return scale;
  }

  static std::vector<Parameter> parameters() {
    return {{"condition", "shape of the condition", "64x256x14x14"},
            {"x", "shape of X", "64x256x14x14"},
            {"y", "shape of Y", "64x256x14x14"}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    return {.inputs = {{.spec = {DType::boolean, parse_shape(v.text("condition", ""))},
                        .low = 0,
                        .high = 1,
                        .differentiable = false},
                       {.spec = {type, parse_shape(v.text("x", ""))}},
                       {.spec = {type, parse_shape(v.text("y", ""))}}}};
  }

  static std::vector<Attributes> cases() {
    return {{{"condition", "scalar"}, {"x", "scalar"}, {"y", "scalar"}},
            {{"condition", "5"}, {"x", "3x4x5"}, {"y", "scalar"}},
            {{"condition", "3x1x5"}, {"x", "1x7x1"}, {"y", "5"}},
            {{"condition", "17x31"}, {"x", "17x31"}, {"y", "17x1"}},
            {{"condition", "4x32x14x14"}, {"x", "4x32x14x14"}, {"y", "4x32x14x14"}}};
  }

 private:
  template <class F>
  static void route(const Context& c, size_t input, const Tensor& to, F&& f) {
    const auto condition = c.input(0).values<bool>();
    const auto dy = c.output_gradient(0).values<double>();
    const Broadcast at(c.input(0).shape(), c.output_gradient(0).shape());
    sum_to(to, c.output_gradient(0).shape(),
           [&](Index i) { return condition[at(i)] == (input == 1) ? f(dy[i]) : 0.0; });
  }
};

}  // namespace
D5_REGISTER(operators, "Where", Where);
}  // namespace d5
