// SPDX-License-Identifier: Apache-2.0
// The middle of a tensor, or zeros around it, so that it gets the wanted sizes (ONNX CenterCropPad). Where the
// difference is odd, one more element is cut off, or added, at the end.
//   y[i] = x[i + first] inside, 0 outside      dx[j] = dy[j - first] where y has it, else 0
#include <algorithm>

#include "d5/operators/known.hpp"
#include "d5/operators/selection.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[center_crop_pad]";

class CenterCropPad final : public Selection {
 public:
  explicit CenterCropPad(const Attributes& a) : all_(!a.has("axes")), axes_(a.integers("axes")) {
    check_attributes(a, {"axes"}, place);
  }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X", "16x3x256x256"},
            {"to", "wanted sizes", "224x224"},
            {"axes", "the axes they belong to; empty: all", "2x3"}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    OperatorCase one{.inputs = {{.spec = {type, parse_shape(v.text("shape", ""))}}, list_input(v, "to")}};
    if (const auto axes = integer_list(v, "axes")) one.attributes.set("axes", *axes);
    return one;
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "7x4"}, {"to", "4x7"}, {"axes", ""}},
            {{"shape", "20x8x3"}, {"to", "9x11"}, {"axes", "-1x0"}},
            {{"shape", "1x3x17x18"}, {"to", "12x20"}}};
  }

 protected:
  Shape output_shape(SpecSpan in) const override {
    check_inputs(in, 2, 2, place);
    std::vector<Index> sizes = in[0].shape.sizes(), wanted = known_integers(in[1], "shape", place);
    const auto axes = axes_of(sizes.size());
    if (wanted.size() != axes.size())
      throw Error("{} shape has {} sizes; {} are wanted, one for each axis", place, wanted.size(), axes.size());
    for (size_t i = 0; i < axes.size(); ++i) sizes[axes[i]] = wanted[i];
    return output_spec(in[0].dtype, std::move(sizes), place).shape;
  }

  Sources sources(SpecSpan in) const override {
    const Shape &x = in[0].shape, y = output_shape(in);
    const auto strides = x.strides();
    Sources from;
    for (size_t axis = 0; axis < x.rank(); ++axis) {
      const Index first = x[axis] >= y[axis] ? (x[axis] - y[axis]) / 2 : -((y[axis] - x[axis]) / 2);
      Sources::check_length(y[axis]);
      auto& steps = from.steps.emplace_back();
      for (Index i = first; i < first + y[axis]; ++i)
        steps.push_back(i < 0 || i >= x[axis] ? Sources::none : i * strides[axis]);
    }
    return from;
  }

 private:
  std::vector<size_t> axes_of(size_t rank) const {
    std::vector<size_t> axes;
    for (size_t axis = 0; all_ && axis < rank; ++axis) axes.push_back(axis);
    for (const Index axis : axes_) axes.push_back(valid_axis(axis, rank, place));
    return axes;
  }

  bool all_;
  std::vector<Index> axes_;
};

}  // namespace
D5_REGISTER(operators, "CenterCropPad", CenterCropPad);
}  // namespace d5
