// SPDX-License-Identifier: Apache-2.0
// The slices along an axis whose condition holds (ONNX Compress); without an axis, elements of the flattened input.
// Slices beyond the end of the condition are left out.
//   y = x[those i with condition[i]]      dx = dy where it came from, zero elsewhere
#include "d5/core/rng.hpp"
#include "d5/operators/known.hpp"
#include "d5/operators/selection.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[compress]";

class Compress final : public Selection {
 public:
  explicit Compress(const Attributes& a) : flat_(!a.has("axis")), axis_(a.integer("axis", 0)) {
    check_attributes(a, {"axis"}, place);
  }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X", "128x1000"},
            {"condition", "number of conditions; half of them hold", 128},
            {"axis", "axis along which slices are taken; 'flat': elements of the flattened input", "0"}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    Tensor condition(DType::boolean, {v.integer("condition", 0)});
    fill_integers(condition, Rng(5), 0, 1);
    OperatorCase one{.inputs = {{.spec = {type, parse_shape(v.text("shape", ""))}},
                                {.spec = known_spec(condition), .differentiable = false}}};
    if (const std::string axis = v.text("axis", "0"); axis != "flat") {
      const auto list = integer_list(v, "axis");
      if (!list || list->size() != 1) throw UsageError("{} axis is {}; legal: an integer, flat", place, axis);
      one.attributes.set("axis", list->front());
    }
    return one;
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "7"}, {"condition", 7}},
            {{"shape", "5x3"}, {"condition", 4}},
            {{"shape", "3x4x5"}, {"condition", 5}, {"axis", "-1"}},
            {{"shape", "3x4"}, {"condition", 11}, {"axis", "flat"}}};
  }

 protected:
  Shape output_shape(SpecSpan in) const override {
    check_inputs(in, 2, 2, place);
    check_type(in[1], {DType::boolean}, place);
    check_rank(in[1], "condition", 1, place);
    const auto chosen = static_cast<Index>(places(in).size());
    if (flat_) return Shape{chosen};
    std::vector<Index> sizes = in[0].shape.sizes();
    sizes[valid_axis(axis_, sizes.size(), place)] = chosen;
    return Shape(std::move(sizes));
  }

  Sources sources(SpecSpan in) const override {
    const Shape& x = in[0].shape;
    Sources from;
    if (flat_) {
      from.steps.push_back(places(in));
      return from;
    }
    const size_t axis = valid_axis(axis_, x.rank(), place);
    const Index inner = x.elements(axis + 1, x.rank());
    from.add_axis(x.elements(0, axis), x[axis] * inner);
    auto& steps = from.steps.emplace_back(places(in));
    for (Index& step : steps) step *= inner;
    from.add_axis(inner, 1);
    return from;
  }

 private:
  std::vector<Index> places(SpecSpan in) const {
    if (!in[1].known)
      throw UnknownValue("{} the condition must be known before the run: the shape of the result depends on it", place);
    const Shape& x = in[0].shape;
    const Index size = flat_ ? x.elements() : x[valid_axis(axis_, x.rank(), place)];
    const auto holds = in[1].known->values<bool>();
    std::vector<Index> found;
    for (Index i = 0; i < static_cast<Index>(holds.size()); ++i) {
      if (!holds[i]) continue;
      if (i >= size) throw Error("{} condition {} holds, but the axis has {} slices", place, i, size);
      found.push_back(i);
    }
    return found;
  }

  bool flat_;
  Index axis_;
};

}  // namespace
D5_REGISTER(operators, "Compress", Compress);
}  // namespace d5
