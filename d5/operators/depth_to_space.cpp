// SPDX-License-Identifier: Apache-2.0
// Blocks of b x b pixels as channels and back (ONNX DepthToSpace, SpaceToDepth) on N x C x H x W.
//   DepthToSpace  y[n, c, h b + i, w b + j] = x[n, (i b + j) C + c, h, w]      mode DCR: the block comes first
//                 y[n, c, h b + i, w b + j] = x[n, c b^2 + i b + j, h, w]      mode CRD: the channel comes first
//   SpaceToDepth  y[n, (i b + j) C + c, h, w] = x[n, c, h b + i, w b + j]      mode DCR, the inverse; CRD likewise
//   dx: the same elements of dy
#include <algorithm>

#include "d5/operators/known.hpp"
#include "d5/operators/selection.hpp"

namespace d5 {
namespace {

constexpr const char* order_text =
    "DCR: the block comes first in the channels, CRD: the channel does (the attribute mode)";

template <bool to_space>
class Blocks final : public Selection {
 public:
  explicit Blocks(const Attributes& a) : block_(a.integer("blocksize", 0)), mode_(a.text("mode", "DCR")) {
    check_attributes(a, {"blocksize", "mode"}, place);
    if (block_ < 1 || block_ > 1 << 20)
      throw Error("{} blocksize is {}; 1 to {} are legal, and it has no default", place, block_, 1 << 20);
    static const std::vector<std::string> modes{"DCR", "CRD"};
    if (std::ranges::find(modes, mode_) == modes.end()) fail_unknown(place, "mode", mode_, modes);
  }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X: N x C x H x W", to_space ? "16x256x28x28" : "16x64x56x56"},
            {"blocksize", "pixels of a block along each axis", 2},
            {"order", order_text, "DCR"}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    return {.inputs = {{.spec = {type, parse_shape(v.text("shape", ""))}}},
            .attributes = {{"blocksize", v.integer("blocksize", 2)}, {"mode", v.text("order", "DCR")}}};
  }

  static std::vector<Attributes> cases() {
    const auto one = [](const char* small, const char* large, int64_t block, const char* order) {
      return Attributes{{"shape", to_space ? small : large}, {"blocksize", block}, {"order", order}};
    };
    return {one("1x8x2x3", "1x2x4x6", 2, "DCR"), one("2x9x1x2", "2x1x3x6", 3, "DCR"),
            one("2x12x3x1", "2x3x6x2", 2, "CRD"), one("2x5x3x3", "2x5x3x3", 1, "DCR"),
            one("4x64x14x14", "4x16x28x28", 2, "DCR")};
  }

 protected:
  Shape output_shape(SpecSpan in) const override {
    check_inputs(in, 1, 1, place);
    check_rank(in[0], "X", 4, place);
    const Shape& x = in[0].shape;
    if (to_space) {
      if (x[1] % (block_ * block_) != 0)
        throw Error("{} X is {}: {} channels are no multiple of {} x {}", place, to_string(x), x[1], block_, block_);
      return output_spec(in[0].dtype, {x[0], x[1] / (block_ * block_), x[2] * block_, x[3] * block_}, place).shape;
    }
    if (x[2] % block_ != 0 || x[3] % block_ != 0)
      throw Error("{} X is {}: {} x {} pixels do not divide into blocks of {}", place, to_string(x), x[2], x[3],
                  block_);
    return output_spec(in[0].dtype, {x[0], x[1] * block_ * block_, x[2] / block_, x[3] / block_}, place).shape;
  }

  Sources sources(SpecSpan in) const override {
    const Shape x = in[0].shape, y = output_shape(in);
    const Index b = block_, channels = std::min(x[1], y[1]), plane = x[2] * x[3];
    const bool block_first = mode_ == "DCR";
    Sources from;
    from.add_axis(x[0], x[1] * plane);
    if (to_space) {
      from.add_axis(channels, block_first ? plane : b * b * plane);
      const Index step = block_first ? channels * plane : plane;  // from one j to the next
      from.add_axis(x[2], x[3]);
      from.add_axis(b, b * step);
      from.add_axis(x[3], 1);
      from.add_axis(b, step);
      return from;
    }
    if (!block_first) from.add_axis(channels, plane);
    from.add_axis(b, x[3]);
    from.add_axis(b, 1);
    if (block_first) from.add_axis(channels, plane);
    from.add_axis(y[2], b * x[3]);
    from.add_axis(y[3], b);
    return from;
  }

 private:
  static constexpr std::string_view place = to_space ? "[depth_to_space]" : "[space_to_depth]";
  Index block_;
  std::string mode_;
};

}  // namespace
D5_REGISTER(operators, "DepthToSpace", Blocks<true>);
D5_REGISTER(operators, "SpaceToDepth", Blocks<false>);
}  // namespace d5
