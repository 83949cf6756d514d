// SPDX-License-Identifier: Apache-2.0
// The same bits seen as another element type of the same width (ONNX BitCast). No gradient.
//   y = x, bit for bit, but for NaN of narrow floats, whose payload a conversion may lose
#include "d5/operators/checks.hpp"
#include "d5/operators/onnx_type.hpp"
#include "d5/operators/operator.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[bit_cast]";

class BitCast final : public Operator {
 public:
  explicit BitCast(const Attributes& a) {
    check_attributes(a, {"to"}, place);
    const auto to = type_attribute(a, "to", place);
    if (!to) throw UsageError("{} to is missing; an element type is wanted", place);
    to_ = *to;
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 1, 1, place);
    if (in[0].dtype == DType::string || to_ == DType::string) throw Error("{} strings have no fixed bits", place);
    if (bits(in[0].dtype) != bits(to_))
      throw Error("{} {} has {} bits, {} has {}; the same number is wanted", place, name(in[0].dtype),
                  bits(in[0].dtype), name(to_), bits(to_));
    return {{to_, in[0].shape}};
  }

  // Inputs are wide here: stored in their own type they have the bits again.
  void forward(Context& c) const override {
    const Tensor own = c.input(0).cast(c.input_type(0));
    c.output(0).copy_from(Tensor::view(to_, own.shape(), own.data()).cast(c.output(0).dtype()));
  }

  Cost cost(SpecSpan in, Pass) const override { return {0, 2 * in[0].bytes()}; }
  Rounding rounding(SpecSpan, Pass, size_t) const override { return {.terms = 0, .units = 0, .exact = true}; }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X", "64x256x14x14"}, {"to", "element type of the result", "i32"}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    return {.inputs = {{.spec = {type, parse_shape(v.text("shape", ""))}, .differentiable = false}},
            .attributes = {{"to", v.text("to", "")}}};
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "scalar"}},
            {{"shape", "3x17"}, {"to", "u32"}},
            {{"shape", "3x17"}, {"to", "i16"}},
            {{"shape", "5"}, {"to", "u64"}}};
  }

 private:
  DType to_;
};

}  // namespace
D5_REGISTER(operators, "BitCast", BitCast);
}  // namespace d5
