// SPDX-License-Identifier: Apache-2.0
// Rectified linear unit (ONNX Relu).
//   y = max(x, 0)      dx = dy where x > 0, else 0
#include "d5/operators/checks.hpp"
#include "d5/operators/operator.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[relu]";

class Relu final : public Operator {
 public:
  explicit Relu(const Attributes& a) { check_attributes(a, {}, place); }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 1, 1, place);
    check_type(in[0], {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8, DType::i16, DType::i32, DType::i64},
               place);
    return {{in[0].dtype, in[0].shape}};
  }

  void forward(Context& c) const override {
    with_compute_type(c.input(0).dtype(), [&]<class T>() {
      const auto x = c.input(0).values<T>(), y = c.output(0).values<T>();
      for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] < T{} ? T{} : x[i];  // NaN stays NaN
    });
  }

  void backward(Context& c) const override {
    const auto x = c.input(0).values<double>(), dy = c.output_gradient(0).values<double>();
    const auto dx = c.input_gradient(0).values<double>();
    for (size_t i = 0; i < x.size(); ++i) dx[i] = x[i] > 0 ? dy[i] : 0;
  }

  Cost cost(SpecSpan in, Pass pass) const override {
    return {1.0 * in[0].elements(), (pass == Pass::forward ? 2 : 3) * in[0].bytes()};
  }

  Rounding rounding(SpecSpan, Pass, size_t) const override { return {.terms = 0, .units = 0, .exact = true}; }

  static std::vector<Parameter> parameters() { return {{"shape", "shape of X", "64x256x14x14"}}; }

  static OperatorCase describe(const Attributes& v, DType type) {
    return {.inputs = {{.spec = {type, parse_shape(v.text("shape", ""))}}}};
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "scalar"}},  {{"shape", "1"}},         {{"shape", "17"}},      {{"shape", "3x5"}},
            {{"shape", "2x3x7x5"}}, {{"shape", "1x2x3x4x5"}}, {{"shape", "1x1x1x1"}}, {{"shape", "8x64x14x14"}}};
  }
};

}  // namespace
D5_REGISTER(operators, "Relu", Relu);
}  // namespace d5
