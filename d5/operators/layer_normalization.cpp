// SPDX-License-Identifier: Apache-2.0
// Layer normalisation (Ba et al., 2016; ONNX LayerNormalization): the axes from `axis` on are normalised together;
// scale and B broadcast to them. Formulas and errors: normalization.hpp.
//   y = scale (x - mean) / s + B      s = sqrt(var + epsilon)      two more outputs: mean and 1 / s, of type stash_type
#include "d5/operators/broadcast.hpp"
#include "d5/operators/checks.hpp"
#include "d5/operators/normalization.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[layer_normalization]";

class LayerNormalization final : public Normalization {
 public:
  explicit LayerNormalization(const Attributes& a)
      : Normalization(a.real("epsilon", 1e-5)), axis_(a.integer("axis", -1)), stash_(stash_type(a, place)) {
    check_attributes(a, {"axis", "epsilon", "stash_type"}, place);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 2, 3, place);
    check_same_type(in, place);
    check_type(in[0], {DType::f32, DType::f64, DType::f16, DType::bf16}, place);
    const Shape& x = in[0].shape;
    const Shape normalized = normalized_shape(x, axis_, place);
    check_broadcast_to(in[1].shape, normalized, "Scale", place);
    if (has(in, 2)) check_broadcast_to(in[2].shape, normalized, "B", place);
    std::vector<Index> sizes = x.sizes();
    std::fill(sizes.begin() + static_cast<std::ptrdiff_t>(valid_axis(axis_, x.rank(), place)), sizes.end(), 1);
    const TensorSpec statistics{stash_, Shape(sizes)};
    return {{in[0].dtype, x}, statistics, statistics};
  }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X", "128x768"},
            {"axis", "first axis that is normalised; -1 is the last", -1},
            {"epsilon", "added to the variance", 1e-5},
            {"bias", "add B", true},
            {"statistics", "also make the outputs Mean and InvStdDev", false}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    const Shape shape = parse_shape(v.text("shape", ""));
    const TensorSpec parameter{type, normalized_shape(shape, v.integer("axis", -1), place)};
    OperatorCase one;
    one.inputs = {{.spec = {type, shape}}, {.spec = parameter, .parameter = true}};
    if (v.flag("bias", true)) one.inputs.push_back({.spec = parameter, .parameter = true});
    one.attributes = {{"axis", v.integer("axis", -1)}, {"epsilon", v.real("epsilon", 1e-5)}};
    one.outputs = v.flag("statistics", false) ? 3 : 1;
    return one;
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "2x3"}},
            {{"shape", "7"}, {"bias", false}},
            {{"shape", "4x5"}, {"axis", 0}},
            {{"shape", "2x3x4x5"}, {"axis", 2}, {"epsilon", 1e-2}, {"statistics", true}},
            {{"shape", "3x1x17"}, {"axis", -2}, {"bias", false}, {"statistics", true}},
            {{"shape", "2x65"}, {"epsilon", 0.1}},
            {{"shape", "7x1500"}},
            {{"shape", "32x768"}}};
  }

 private:
  Rows rows(const Shape& x, const Shape& scale) const override {
    const Shape normalized = normalized_shape(x, axis_, place);
    Rows r{.rows = x.elements(0, valid_axis(axis_, x.rank(), place)),
           .length = normalized.elements(),
           .cycle = 1,
           .advance = 0,
           .offset = {}};
    const Broadcast at(scale, normalized);
    for (Index j = 0; j < r.length; ++j) r.offset.push_back(at(j));
    return r;
  }

  Index axis_;
  DType stash_;
};

}  // namespace
D5_REGISTER(operators, "LayerNormalization", LayerNormalization);
}  // namespace d5
