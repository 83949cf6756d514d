// SPDX-License-Identifier: Apache-2.0
// Rectifier with a given slope below zero (He et al., 2015; ONNX PRelu). The slope s broadcasts to X.
//   y = s x where x < 0, else x      dx = dy where x > 0, else s dy      ds = sum of dy x where x < 0
#include "d5/operators/elementwise.hpp"
#include "d5/operators/product.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[prelu]";

class PRelu final : public Operator {
 public:
  explicit PRelu(const Attributes& a) { check_attributes(a, {}, place); }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 2, 2, place);
    check_same_type(in, place);
    check_type(in[0], {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64, DType::u32, DType::u64},
               place);
    check_broadcast_to(in[1].shape, in[0].shape, "slope", place);
    return {{in[0].dtype, in[0].shape}};
  }

  void forward(Context& c) const override {
    const Broadcast at(c.input(1).shape(), c.input(0).shape());
    with_compute_type(c.input(0).dtype(), [&]<class T>() {
      const auto x = c.input(0).values<T>(), s = c.input(1).values<T>(), y = c.output(0).values<T>();
      for_each_element(c.input(0).elements(),
                       [&](Index i) { y[i] = x[i] < T{} ? multiply_add(T{}, s[at(i)], x[i]) : x[i]; });
    });
  }

  void backward(Context& c) const override {
    const auto dy = c.output_gradient(0).values<double>();
    for (const size_t input : {0, 1})
      if (c.input_gradient(input).present())
        sum_terms(c, input, c.input_gradient(input), [&](Index i, double slope) { return dy[i] * slope; });
  }

  Cost cost(SpecSpan in, Pass pass) const override {
    const double elements = static_cast<double>(in[0].elements());
    if (pass == Pass::forward) return {2 * elements, input_bytes(in) + in[0].bytes()};
    return {5 * elements, 2 * input_bytes(in) + in[0].bytes()};
  }

  // The product; for ds it may be stored before it is summed.
  Rounding rounding(SpecSpan in, Pass pass, size_t index) const override {
    const bool sum = pass == Pass::backward && index == 1;
    return {.terms = sum ? readers(in[1], in[0]) - 1 : 0, .units = 1, .exact = true, .stored_outputs = sum};
  }

  Tensor magnitude(const Context& c, Pass pass, size_t index) const override {
    if (pass == Pass::forward) return absolute(c.output(0));
    const auto dy = c.output_gradient(0).values<double>();
    Tensor scale(DType::f64, c.input(index).shape());
    sum_terms(c, index, scale, [&](Index i, double slope) { return std::abs(dy[i] * slope); });
    return scale;
  }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X", "64x256x14x14"}, {"slope", "shape of the slope", "256x1x1"}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    return {.inputs = {{.spec = {type, parse_shape(v.text("shape", ""))}},
                       {.spec = {type, parse_shape(v.text("slope", ""))}, .parameter = true}}};
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "scalar"}, {"slope", "scalar"}}, {{"shape", "3x5"}, {"slope", "5"}},
            {{"shape", "2x3x7x5"}, {"slope", "3x1x1"}}, {{"shape", "2x3x5"}, {"slope", "1"}},
            {{"shape", "17x31"}, {"slope", "17x31"}},   {{"shape", "4x32x14x14"}, {"slope", "32x1x1"}}};
  }

 private:
  static Tensor absolute(const Tensor& tensor) {
    Tensor result = tensor.cast(DType::f64);
    for (double& value : result.values<double>()) value = std::abs(value);
    return result;
  }

  // to = sum of term(i, dy/dinput at i).
  template <class Term>
  static void sum_terms(const Context& c, size_t input, const Tensor& to, Term&& term) {
    const auto x = c.input(0).values<double>(), s = c.input(1).values<double>();
    const Broadcast at(c.input(1).shape(), c.input(0).shape());
    sum_to(to, c.input(0).shape(), [&](Index i) {
      if (input == 0) return term(i, x[i] > 0 ? 1.0 : s[at(i)]);
      return term(i, x[i] < 0 ? x[i] : 0.0);
    });
  }
};

}  // namespace
D5_REGISTER(operators, "PRelu", PRelu);
}  // namespace d5
