// SPDX-License-Identifier: Apache-2.0
// The input as it is (ONNX Identity).
//   y = x      dx = dy
#include "d5/operators/checks.hpp"
#include "d5/operators/operator.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[identity]";

class Identity final : public Operator {
 public:
  explicit Identity(const Attributes& a) { check_attributes(a, {}, place); }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 1, 1, place);
    return {in[0]};  // a known value stays known
  }

  void forward(Context& c) const override { c.output(0).copy_from(c.input(0)); }
  void backward(Context& c) const override {
    if (c.input_gradient(0).present()) c.input_gradient(0).copy_from(c.output_gradient(0));
  }

  Cost cost(SpecSpan in, Pass) const override { return {0, 2 * in[0].bytes()}; }
  Rounding rounding(SpecSpan, Pass, size_t) const override { return {.terms = 0, .units = 0, .exact = true}; }

  static std::vector<Parameter> parameters() { return {{"shape", "shape of X", "64x256x14x14"}}; }

  static OperatorCase describe(const Attributes& v, DType type) {
    return {.inputs = {{.spec = {type, parse_shape(v.text("shape", ""))}}}};
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "scalar"}}, {{"shape", "17"}}, {{"shape", "2x3x7x5"}}, {{"shape", "4x32x14x14"}}};
  }
};

}  // namespace
D5_REGISTER(operators, "Identity", Identity);
}  // namespace d5
