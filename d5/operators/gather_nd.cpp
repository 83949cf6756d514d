// SPDX-License-Identifier: Apache-2.0
// Slices of a tensor chosen by tuples of coordinates (ONNX GatherND). The first batch_dims axes are common to the data
// and the indices; the last axis of the indices holds the tuples; negative coordinates count from the end.
//   y[b, i, c] = x[b, indices[b, i, :], c]      dx = dy, added up where a tuple comes more than once
#include <algorithm>

#include "d5/operators/indexing.hpp"
#include "d5/operators/known.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[gather_nd]";

class GatherND final : public Selection {
 public:
  explicit GatherND(const Attributes& a) : batch_(a.integer("batch_dims", 0)) {
    check_attributes(a, {"batch_dims"}, place);
  }

  // Only tuples of one batch can mean the same slice.
  Rounding rounding(SpecSpan in, Pass pass, size_t index) const override {
    if (pass == Pass::forward || in[1].known) return Selection::rounding(in, pass, index);
    const Shape& indices = in[1].shape;
    return {.terms = static_cast<double>(indices.elements(static_cast<size_t>(batch_), indices.rank() - 1)),
            .units = 0,
            .exact = true};
  }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of the data", "32x128x768"},
            {"indices", "shape of the indices; the last size is the length of a tuple", "32x20x1"},
            {"batch_dims", "leading axes in common", 1}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    const Shape x = parse_shape(v.text("shape", "")), indices = parse_shape(v.text("indices", ""));
    const Index batch = v.integer("batch_dims", 1);
    tuple_shape(x, indices, batch, place);
    // One range for all coordinates: that of the smallest axis they index.
    Index smallest = x[static_cast<size_t>(batch)];
    for (Index k = 1; k < indices.back(); ++k) smallest = std::min(smallest, x[static_cast<size_t>(batch + k)]);
    return {.inputs = {{.spec = {type, x}},
                       {.spec = {DType::i64, indices},
                        .low = -static_cast<double>(smallest),
                        .high = static_cast<double>(smallest - 1),
                        .differentiable = false}},
            .attributes = {{"batch_dims", batch}}};
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "5"}, {"indices", "3x1"}, {"batch_dims", 0}},
            {{"shape", "2x3"}, {"indices", "2"}, {"batch_dims", 0}},
            {{"shape", "3x4x5"}, {"indices", "2x7x2"}, {"batch_dims", 0}},
            {{"shape", "2x3x4"}, {"indices", "2x5x1"}},
            {{"shape", "2x3x4x2"}, {"indices", "2x3x4x1"}, {"batch_dims", 2}},
            {{"shape", "8x32x64"}, {"indices", "8x20x1"}}};
  }

 protected:
  Shape output_shape(SpecSpan in) const override {
    check_inputs(in, 2, 2, place);
    check_index_type(in[1], "indices", place);
    return tuple_shape(in[0].shape, in[1].shape, batch_, place);
  }

  Sources sources(SpecSpan in) const override { return tuple_sources(in[0].shape, *in[1].known, batch_, place); }

 private:
  Index batch_;
};

}  // namespace
D5_REGISTER(operators, "GatherND", GatherND);
}  // namespace d5
