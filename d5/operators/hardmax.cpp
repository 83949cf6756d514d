// SPDX-License-Identifier: Apache-2.0
// One at the first largest element of each line along an axis, zero elsewhere (ONNX Hardmax). No gradient.
//   y_i = 1 where x_i = max x and no x_j with j < i is as large, else 0
#include "d5/operators/exact.hpp"
#include "d5/operators/lines.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[hardmax]";

class Hardmax final : public Exact {
 public:
  explicit Hardmax(const Attributes& a) : axis_(a.integer("axis", -1)) { check_attributes(a, {"axis"}, place); }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 1, 1, place);
    check_type(in[0], {DType::f32, DType::f64, DType::f16, DType::bf16}, place);
    valid_axis(axis_, in[0].shape.rank(), place);
    return {{in[0].dtype, in[0].shape}};
  }

  void forward(Context& c) const override {
    for (auto [x, y] : lines<double>(axis_, c.input(0), c.output(0))) {
      size_t best = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        if (x[i] > x[best]) best = i;
        y[i] = 0;
      }
      y[best] = 1;
    }
  }

  Cost cost(SpecSpan in, Pass) const override { return {static_cast<double>(in[0].elements()), 2 * in[0].bytes()}; }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X", "128x1000"}, {"axis", "axis along which the largest is sought", -1}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    return {.inputs = {{.spec = {type, parse_shape(v.text("shape", ""))}, .differentiable = false}},
            .attributes = {{"axis", v.integer("axis", -1)}}};
  }

  static std::vector<Attributes> cases() {
    return {
        {{"shape", "1"}}, {{"shape", "3x4x5"}, {"axis", 1}}, {{"shape", "7x3"}, {"axis", 0}}, {{"shape", "16x100"}}};
  }

 private:
  Index axis_;
};

}  // namespace
D5_REGISTER(operators, "Hardmax", Hardmax);
}  // namespace d5
