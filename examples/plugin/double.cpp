// SPDX-License-Identifier: Apache-2.0
// Double, an operator that deep500 does not have.
//   y = 2 x      dx = 2 dy
#include "d5/operators/operator.hpp"

namespace {

using namespace d5;

class Double final : public Operator {
 public:
  explicit Double(const Attributes&) {}

  std::vector<TensorSpec> infer(std::span<const TensorSpec> in) const override { return {in[0]}; }

  void forward(Context& c) const override { twice(c.input(0), c.output(0)); }
  void backward(Context& c) const override { twice(c.output_gradient(0), c.input_gradient(0)); }

  Cost cost(std::span<const TensorSpec> in, Pass) const override {
    return {.flops = static_cast<double>(in[0].shape.elements()), .bytes = 2 * input_bytes(in)};
  }
  Rounding rounding(std::span<const TensorSpec>, Pass, size_t) const override { return {.units = 0, .exact = true}; }

  static std::vector<Parameter> parameters() { return {{"shape", "sizes of x", std::string("2x3")}}; }
  static OperatorCase describe(const Attributes& values, DType type) {
    OperatorCase result;
    result.inputs.push_back({.spec = {type, parse_shape(values.text("shape", "2x3"))}});
    return result;
  }
  static std::vector<Attributes> cases() { return {{}, {{"shape", std::string("7")}}}; }

 private:
  static void twice(const Tensor& from, const Tensor& to) {
    const auto x = from.values<double>();
    const auto y = to.values<double>();
    for (size_t i = 0; i < x.size(); ++i) y[i] = 2 * x[i];
  }
};

}  // namespace

D5_REGISTER(operators, "Double", Double);
