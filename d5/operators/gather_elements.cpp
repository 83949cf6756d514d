// SPDX-License-Identifier: Apache-2.0
// Single elements chosen by indices along one axis (ONNX GatherElements). Negative indices count from the end.
//   y[a, i, b] = x[a, indices[a, i, b], b]      dx[a, j, b] = sum of dy[a, i, b] over all i with indices[a, i, b] = j
#include "d5/operators/indexing.hpp"
#include "d5/operators/known.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[gather_elements]";

class GatherElements final : public Selection {
 public:
  explicit GatherElements(const Attributes& a) : axis_(a.integer("axis", 0)) { check_attributes(a, {"axis"}, place); }

  // Only indices of one line along the axis can mean the same element.
  Rounding rounding(SpecSpan in, Pass pass, size_t index) const override {
    if (pass == Pass::forward || in[1].known) return Selection::rounding(in, pass, index);
    const Shape& indices = in[1].shape;
    return {.terms = static_cast<double>(indices[valid_axis(axis_, indices.rank(), place)]), .units = 0, .exact = true};
  }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of the data", "128x1000"},
            {"indices", "shape of the indices", "128x10"},
            {"axis", "axis that is indexed", 1}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    const Shape x = parse_shape(v.text("shape", ""));
    const auto size = static_cast<double>(x[valid_axis(v.integer("axis", 1), x.rank(), place)]);
    return {.inputs = {{.spec = {type, x}},
                       {.spec = {DType::i64, parse_shape(v.text("indices", ""))},
                        .low = -size,
                        .high = size - 1,
                        .differentiable = false}},
            .attributes = {{"axis", v.integer("axis", 1)}}};
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "4"}, {"indices", "7"}, {"axis", 0}},
            {{"shape", "3x5"}, {"indices", "3x2"}},
            {{"shape", "3x5"}, {"indices", "2x4"}, {"axis", 0}},
            {{"shape", "2x3x4"}, {"indices", "2x2x9"}, {"axis", -1}},
            {{"shape", "3x4x5"}, {"indices", "1x6x5"}, {"axis", 1}},
            {{"shape", "64x500"}, {"indices", "64x10"}}};
  }

 protected:
  Shape output_shape(SpecSpan in) const override {
    check_inputs(in, 2, 2, place);
    check_index_type(in[1], "indices", place);
    const Shape& x = in[0].shape;
    check_element_indices(x, in[1].shape, valid_axis(axis_, x.rank(), place), place);
    return in[1].shape;
  }

  Sources sources(SpecSpan in) const override {
    return element_sources(in[0].shape, *in[1].known, valid_axis(axis_, in[0].shape.rank(), place), place);
  }

 private:
  Index axis_;
};

}  // namespace
D5_REGISTER(operators, "GatherElements", GatherElements);
}  // namespace d5
