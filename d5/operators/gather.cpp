// SPDX-License-Identifier: Apache-2.0
// Slices of a tensor chosen by indices along one axis (ONNX Gather): rows of an embedding table.
//   y[a, i, b] = x[a, indices[i], b]      dx[a, j, b] = sum of dy[a, i, b] over all i with indices[i] = j
// where a stands for the axes before `axis`, b for those after it and i for all axes of the indices. Negative indices
// count from the end.
#include "d5/operators/indexing.hpp"
#include "d5/operators/known.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[gather]";

class Gather final : public Selection {
 public:
  explicit Gather(const Attributes& a) : axis_(a.integer("axis", 0)) { check_attributes(a, {"axis"}, place); }

  bool backward_at(const Context& c, size_t, std::span<const Index> at, std::span<double> values) const override {
    const Shape& x = c.input(0).shape();
    const size_t axis = valid_axis(axis_, x.rank(), place);
    const Index inner = x.elements(axis + 1, x.rank()), size = x[axis];
    const auto list = integers(c.input(1));
    const auto count = static_cast<Index>(list.size());
    const auto dy = c.output_gradient(0).values<double>();
    for (size_t k = 0; k < at.size(); ++k) {
      const Index a = at[k] / (size * inner), j = at[k] / inner % size, b = at[k] % inner;
      values[k] = 0;
      for (Index i = 0; i < count; ++i)
        if (checked_index(list[i], size, i, place) == j) values[k] += dy[(a * count + i) * inner + b];
    }
    return true;
  }

  // Where indices are random, several slices may be the same one: all of them may be read, or added into one.
  Rounding rounding(SpecSpan in, Pass pass, size_t index) const override {
    if (pass == Pass::forward || in[1].known) return Selection::rounding(in, pass, index);
    return {.terms = static_cast<double>(in[1].elements()), .units = 0, .exact = true};
  }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of the data", "30522x768"},
            {"indices", "shape of the indices", "32x128"},
            {"axis", "axis that is indexed", 0}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    const Shape x = parse_shape(v.text("shape", ""));
    const auto size = static_cast<double>(x[valid_axis(v.integer("axis", 0), x.rank(), place)]);
    return {.inputs = {{.spec = {type, x}},
                       {.spec = {DType::i64, parse_shape(v.text("indices", ""))},
                        .low = -size,
                        .high = size - 1,
                        .differentiable = false}},
            .attributes = {{"axis", v.integer("axis", 0)}}};
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "5"}, {"indices", "scalar"}},
            {{"shape", "5x3"}, {"indices", "4"}},
            {{"shape", "3x4x2"}, {"indices", "2x3"}, {"axis", 1}},
            {{"shape", "3x4x7"}, {"indices", "9"}, {"axis", -1}},
            {{"shape", "1x2"}, {"indices", "3x1x2"}},
            {{"shape", "3x0"}, {"indices", "2"}},
            {{"shape", "2x0x4"}, {"indices", "2"}},
            {{"shape", "1000x96"}, {"indices", "4x32"}}};
  }

 protected:
  Shape output_shape(SpecSpan in) const override {
    check_inputs(in, 2, 2, place);
    check_index_type(in[1], "indices", place);
    const Shape& x = in[0].shape;
    const size_t axis = valid_axis(axis_, x.rank(), place);
    std::vector<Index> sizes(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(axis));
    sizes.insert(sizes.end(), in[1].shape.begin(), in[1].shape.end());
    sizes.insert(sizes.end(), x.begin() + static_cast<std::ptrdiff_t>(axis) + 1, x.end());
    return output_spec(in[0].dtype, std::move(sizes), place).shape;
  }

  Sources sources(SpecSpan in) const override {
    const Shape& x = in[0].shape;
    const size_t axis = valid_axis(axis_, x.rank(), place);
    const Index inner = x.elements(axis + 1, x.rank());
    Sources from;
    from.add_axis(x.elements(0, axis), x[axis] * inner);
    auto& steps = from.steps.emplace_back();
    for (const Index index : integers(*in[1].known))
      steps.push_back(checked_index(index, x[axis], static_cast<Index>(steps.size()), place) * inner);
    from.add_axis(inner, 1);
    return from;
  }

 private:
  Index axis_;
};

}  // namespace
D5_REGISTER(operators, "Gather", Gather);
}  // namespace d5
