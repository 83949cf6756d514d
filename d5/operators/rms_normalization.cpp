// SPDX-License-Identifier: Apache-2.0
// Root mean square normalisation (Zhang and Sennrich, 2019; ONNX RMSNormalization): the axes from `axis` on are
// normalised together; scale broadcasts to them, and Y has its type. Formulas and errors: normalization.hpp.
//   y = scale x / s      s = sqrt(mean(x^2) + epsilon)
#include "d5/operators/broadcast.hpp"
#include "d5/operators/checks.hpp"
#include "d5/operators/normalization.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[rms_normalization]";

class RmsNormalization final : public Normalization {
 public:
  explicit RmsNormalization(const Attributes& a)
      : Normalization(a.real("epsilon", 1e-5), false), axis_(a.integer("axis", -1)) {
    stash_type(a, place);  // a kernel may compute in more than it says
    check_attributes(a, {"axis", "epsilon", "stash_type"}, place);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 2, 2, place);
    for (const TensorSpec& spec : in) check_type(spec, {DType::f32, DType::f64, DType::f16, DType::bf16}, place);
    check_broadcast_to(in[1].shape, normalized_shape(in[0].shape, axis_, place), "scale", place);
    return {{in[1].dtype, in[0].shape}};
  }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X", "128x768"},
            {"axis", "first axis that is normalised; -1 is the last", -1},
            {"epsilon", "added to the mean of squares", 1e-5}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    const Shape shape = parse_shape(v.text("shape", ""));
    return {.inputs = {{.spec = {type, shape}},
                       {.spec = {type, normalized_shape(shape, v.integer("axis", -1), place)}, .parameter = true}},
            .attributes = {{"axis", v.integer("axis", -1)}, {"epsilon", v.real("epsilon", 1e-5)}}};
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "2x3"}},
            {{"shape", "7"}},
            {{"shape", "4x5"}, {"axis", 0}, {"epsilon", 1e-2}},
            {{"shape", "2x3x4x5"}, {"axis", 2}},
            {{"shape", "3x1x17"}, {"axis", -2}, {"epsilon", 0.1}},
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
};

}  // namespace
D5_REGISTER(operators, "RMSNormalization", RmsNormalization);
}  // namespace d5
