// SPDX-License-Identifier: Apache-2.0
// Values around a tensor (ONNX Pad; negative pads remove them). What stands outside:
//   constant  constant_value, or zero      edge  the nearest element inside
//   reflect   the mirror image, without the edge itself      wrap  the tensor again
//   dx[j] = sum of dy over all copies of x[j]      d constant_value = sum of dy outside
#include <fmt/ranges.h>

#include <algorithm>

#include "d5/operators/known.hpp"
#include "d5/operators/magnitude.hpp"
#include "d5/operators/selection.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[pad]";
const std::vector<std::string> modes{"constant", "reflect", "edge", "wrap"};

// Which element of an axis stands at `i`, counted from its first; Sources::none: the constant.
Index inside(const std::string& mode, Index i, Index size) {
  if (i >= 0 && i < size) return i;
  if (mode == "edge") return i < 0 ? 0 : size - 1;
  if (mode == "wrap") return (i % size + size) % size;
  if (mode == "constant") return Sources::none;
  if (size == 1) return 0;
  const Index period = 2 * (size - 1), phase = (i % period + period) % period;
  return phase < size ? phase : period - phase;
}

class Pad final : public Selection {
 public:
  explicit Pad(const Attributes& a) : mode_(a.text("mode", "constant")) {
    check_attributes(a, {"mode"}, place);
    if (std::ranges::find(modes, mode_) == modes.end()) fail_unknown(place, "mode", mode_, modes);
  }

  void backward(Context& c) const override {
    Selection::backward(c);
    if (!c.input_gradient(2).present()) return;
    const auto dy = c.output_gradient(0).values<double>(), constant = cleared(c.input_gradient(2));
    sources(known_specs(c.inputs)).for_each([&](Index i, Index source) {
      if (source == Sources::none) constant[0] += dy[i];
    });
  }

  Cost cost(SpecSpan in, Pass pass) const override { return Selection::cost(moved(in), pass); }

  Rounding rounding(SpecSpan in, Pass pass, size_t index) const override {
    if (index != 2) return Selection::rounding(moved(in), pass, index);
    return {.terms = static_cast<double>(output_shape(in).elements()), .units = 0, .exact = true};
  }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X", "16x64x56x56"},
            {"pads", "elements before each axis, then after each; negative ones remove", "0x0x1x1x0x0x1x1"},
            {"axes", "the axes that pads belong to; empty: all", ""},
            {"outside", "constant, reflect, edge or wrap (the attribute mode)", "constant"},
            {"constant", "give a constant, as an input with a gradient", false}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    const bool constant = v.flag("constant", false);
    return {.inputs = {{.spec = {type, parse_shape(v.text("shape", ""))}},
                       list_input(v, "pads"),
                       constant ? OperatorInput{.spec = {type, {}}} : absent_input(),
                       list_input(v, "axes")},
            .attributes = {{"mode", v.text("outside", "constant")}}};
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "5"}, {"pads", "2x1"}},
            {{"shape", "3x4"}, {"pads", "0x2x1x0"}, {"constant", true}},
            {{"shape", "3x4"}, {"pads", "2x1x1x3"}, {"outside", "reflect"}},
            {{"shape", "3x4"}, {"pads", "2x5x1x3"}, {"outside", "edge"}},
            {{"shape", "3x4"}, {"pads", "4x1x1x9"}, {"outside", "wrap"}},
            {{"shape", "2x3"}, {"pads", "3x7x0x5"}, {"outside", "reflect"}},
            {{"shape", "2x3x5"}, {"pads", "1x-1x2x0"}, {"axes", "-1x0"}, {"constant", true}},
            {{"shape", "4x6"}, {"pads", "-1x1x-2x1"}, {"outside", "reflect"}},
            {{"shape", "4x6"}, {"pads", "2x-1x-1x3"}, {"outside", "wrap"}},
            {{"shape", "2x16x28x28"}}};
  }

 protected:
  Shape output_shape(SpecSpan in) const override {
    check_inputs(in, 2, 4, place);
    if (has(in, 2) && (in[2].dtype != in[0].dtype || in[2].elements() != 1))
      throw Error("{} constant_value is {}; one value of type {} is wanted", place, to_string(in[2]),
                  name(in[0].dtype));
    const auto [before, after] = pads(in);
    std::vector<Index> sizes;
    for (size_t axis = 0; axis < before.size(); ++axis) {
      Index size = in[0].shape[axis];
      if (__builtin_add_overflow(size, before[axis], &size) || __builtin_add_overflow(size, after[axis], &size) ||
          size < 0)
        throw Error("{} axis {} of size {} with pads of {} and {} has no size", place, axis, in[0].shape[axis],
                    before[axis], after[axis]);
      if (const auto [first, last] = left(in[0].shape[axis], before[axis], after[axis]);
          mode_ != "constant" && first >= last && size > 0)
        throw Error("{} axis {} is empty: mode {} has nothing to copy", place, axis, mode_);
      sizes.push_back(size);
    }
    return output_spec(in[0].dtype, std::move(sizes), place).shape;
  }

  Sources sources(SpecSpan in) const override {
    const auto [before, after] = pads(in);
    const auto strides = in[0].shape.strides();
    Sources from;
    for (size_t axis = 0; axis < before.size(); ++axis) {
      Sources::check_length(output_shape(in)[axis]);
      auto& steps = from.steps.emplace_back();
      const auto [first, last] = left(in[0].shape[axis], before[axis], after[axis]);
      for (Index i = -before[axis]; i < in[0].shape[axis] + after[axis]; ++i) {
        const Index source = inside(mode_, i - first, last - first);
        steps.push_back(source == Sources::none ? Sources::none : (first + source) * strides[axis]);
      }
    }
    return from;
  }

  const Tensor& filling(const Context& c) const override { return c.input(2); }

 private:
  struct Pads {
    std::vector<Index> before, after;  // of every axis
  };

  // What negative pads leave of an axis, from the first element to behind the last: the rest is no longer there to be
  // wrapped to or reflected.
  static std::pair<Index, Index> left(Index size, Index before, Index after) {
    return {before < 0 ? -before : 0, after < 0 ? size + after : size};
  }

  static Pads pads(SpecSpan in) {
    const Shape& x = in[0].shape;
    const auto list = known_integers(in[1], "pads", place);
    std::vector<Index> axes;
    for (size_t axis = 0; axis < x.rank(); ++axis) axes.push_back(static_cast<Index>(axis));
    if (has(in, 3)) axes = known_integers(in[3], "axes", place);
    if (list.size() != 2 * axes.size())
      throw Error("{} pads is {}; {} values are wanted, two for each of {} axes", place, fmt::join(list, ","),
                  2 * axes.size(), axes.size());
    Pads pads{std::vector<Index>(x.rank(), 0), std::vector<Index>(x.rank(), 0)};
    std::vector<bool> seen(x.rank(), false);
    for (size_t i = 0; i < axes.size(); ++i) {
      const size_t axis = valid_axis(axes[i], x.rank(), place);
      if (seen[axis]) throw Error("{} axis {} is given twice", place, axes[i]);
      seen[axis] = true;
      pads.before[axis] = list[i];
      pads.after[axis] = list[i + axes.size()];
    }
    return pads;
  }

  // The constant has no say in which elements are moved: its value need not be known.
  static std::vector<TensorSpec> moved(SpecSpan in) {
    std::vector<TensorSpec> specs(in.begin(), in.end());
    if (specs.size() > 2) specs[2] = TensorSpec::absent();
    return specs;
  }

  std::string mode_;
};

}  // namespace
D5_REGISTER(operators, "Pad", Pad);
}  // namespace d5
