// SPDX-License-Identifier: Apache-2.0
// Part of a tensor, every step-th element along each axis (ONNX Slice, as numpy's x[start:end:step]). Negative starts
// and ends count from the end, both are clamped to the axis, and a negative step walks backwards: then a start before
// the axis is its first element, where numpy takes none.
//   y[i] = x[start + i step]      dx[start + i step] = dy[i], zero elsewhere
#include <algorithm>

#include "d5/operators/known.hpp"
#include "d5/operators/selection.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[slice]";

struct Range {
  Index start = 0, step = 1, count = 0;
};

Range clamped(Index start, Index end, Index step, Index size) {
  if (step == 0) throw Error("{} a step is 0; it must not be", place);
  if (size == 0) return {0, 1, 0};
  const Index low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  const auto clamp = [&](Index at, Index least) { return std::clamp(at < 0 ? at + size : at, least, high); };
  const Index first = clamp(start, 0), last = clamp(end, low);
  const Index distance = step > 0 ? last - first : first - last;
  // -step of the smallest integer overflows; one that passes the whole axis takes one element, whatever its size.
  const Index stride = step > 0 ? step : -std::max(step, -std::max<Index>(size, 1));
  return {first, step > 0 ? step : -stride, distance <= 0 ? 0 : (distance - 1) / stride + 1};
}

class Slice final : public Selection {
 public:
  explicit Slice(const Attributes& a) { check_attributes(a, {}, place); }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X", "32x128x768"},
            {"starts", "first element along each axis, as in 0x1; negative: from the end", "0x64"},
            {"ends", "where to stop, not included", "32x128"},
            {"axes", "the axes these belong to; empty: the first ones", ""},
            {"steps", "distance between elements, negative: backwards; empty: 1", ""}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    return {.inputs = {{.spec = {type, parse_shape(v.text("shape", ""))}},
                       list_input(v, "starts"),
                       list_input(v, "ends"),
                       list_input(v, "axes"),
                       list_input(v, "steps")}};
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "7"}, {"starts", "2"}, {"ends", "5"}},
            {{"shape", "4x5"}, {"starts", "1x0"}, {"ends", "3x4"}, {"steps", "1x2"}},
            {{"shape", "4x5x3"}, {"starts", "-1"}, {"ends", "-1000"}, {"axes", "1"}, {"steps", "-1"}},
            {{"shape", "9x8"}, {"starts", "7x-2"}, {"ends", "0x0"}, {"axes", "-2x-1"}, {"steps", "-3x-2"}},
            {{"shape", "3x4"}, {"starts", "0"}, {"ends", "9223372036854775807"}, {"axes", "1"}, {"steps", "3"}},
            {{"shape", "5x6"}, {"starts", "none"}, {"ends", "none"}},
            {{"shape", "8x64x96"}, {"starts", "16"}, {"ends", "48"}, {"axes", "1"}}};
  }

 protected:
  Shape output_shape(SpecSpan in) const override {
    std::vector<Index> shape;
    for (const Range& range : ranges(in)) shape.push_back(range.count);
    return Shape(std::move(shape));
  }

  Sources sources(SpecSpan in) const override {
    const auto strides = in[0].shape.strides();
    Sources from;
    for (size_t axis = 0; const Range& range : ranges(in)) {
      Sources::check_length(range.count);
      auto& steps = from.steps.emplace_back();
      for (Index i = 0; i < range.count; ++i) steps.push_back((range.start + i * range.step) * strides[axis]);
      ++axis;
    }
    return from;
  }

 private:
  static std::vector<Range> ranges(SpecSpan in) {
    check_inputs(in, 3, 5, place);
    const Shape& x = in[0].shape;
    const auto starts = known_integers(in[1], "starts", place), ends = known_integers(in[2], "ends", place);
    std::vector<Index> axes, steps(starts.size(), 1);
    for (size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<Index>(i));
    if (has(in, 3)) axes = known_integers(in[3], "axes", place);
    if (has(in, 4)) steps = known_integers(in[4], "steps", place);
    if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
      throw Error("{} {} starts, {} ends, {} axes and {} steps are given; their numbers must agree", place,
                  starts.size(), ends.size(), axes.size(), steps.size());
    std::vector<Range> ranges;
    for (const Index size : x) ranges.push_back({.count = size});
    std::vector<bool> seen(x.rank(), false);
    for (size_t i = 0; i < axes.size(); ++i) {
      const size_t axis = valid_axis(axes[i], x.rank(), place);
      if (seen[axis]) throw Error("{} axis {} is given twice", place, axes[i]);
      seen[axis] = true;
      ranges[axis] = clamped(starts[i], ends[i], steps[i], x[axis]);
    }
    return ranges;
  }
};

}  // namespace
D5_REGISTER(operators, "Slice", Slice);
}  // namespace d5
