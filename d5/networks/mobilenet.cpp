// SPDX-License-Identifier: Apache-2.0
// MobileNetV2 (Sandler et al., 2018): inverted residuals. A block widens by 1x1, filters every map on its own by 3x3
// and narrows by a linear 1x1; where sizes agree its input is added.
#include <array>
#include <cmath>

#include "d5/networks/builder.hpp"
#include "d5/networks/network.hpp"

namespace d5 {
namespace {

// Maps are multiples of 8, but never less than nine tenths of what was asked for.
Index rounded(double maps) {
  const Index near = std::max<Index>(8, static_cast<Index>(std::floor((maps + 4) / 8)) * 8);
  return static_cast<double>(near) < 0.9 * maps ? near + 8 : near;
}

struct MobileNetV2 {
  static constexpr const char* about = "Sandler et al. 2018";
  static constexpr const char* loss = "cross-entropy";

  static std::vector<Parameter> parameters() {
    return {{"classes", "outputs", 1000},
            {"size", "height and width of an image", 224},
            {"width", "multiplies all maps", 1.0},
            {"dropout", "before the last layer", 0.2}};
  }

  static Graph build(const Attributes& v, Index batch, DType dtype) {
    const Index size = v.integer("size", 0);
    const double width = v.real("width", 0);
    if (!(width > 0 && width <= 1000))
      throw UsageError("[mobilenet-v2] width is {}; more than 0, up to 1000, is legal", width);
    Builder b("mobilenet-v2", batch, dtype);
    const auto unit = [&](const std::string& name, const Edge& x, Index maps, const ConvOptions& options, Index kernel,
                          bool active) {
      ConvOptions o = options;
      o.bias = false;
      o.initialiser = "he-out";
      const Edge y = b.batch_norm(name + ".bn", b.conv(name + ".conv", x, maps, kernel, o));
      return active ? b.node("Clip", name + ".relu6",
                             {y, b.constant("0", Tensor::scalar(0, dtype)), b.constant("6", Tensor::scalar(6, dtype))})
                    : y;
    };
    Edge x = unit("stem", b.input("image", {3, size, size}), rounded(32 * width), {.stride = 2, .pad = 1}, 3, true);

    struct Stage {
      Index expand, maps, blocks, stride;
    };
    static constexpr std::array<Stage, 7> stages{
        {{1, 16, 1, 1}, {6, 24, 2, 2}, {6, 32, 3, 2}, {6, 64, 4, 2}, {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}}};
    int number = 0;
    for (const Stage& stage : stages)
      for (Index i = 0; i < stage.blocks; ++i) {
        const std::string name = fmt::format("block{}", number++);
        const Index maps = rounded(static_cast<double>(stage.maps) * width), stride = i == 0 ? stage.stride : 1;
        Edge y = x;
        if (stage.expand != 1) y = unit(name + ".expand", y, x.channels() * stage.expand, {}, 1, true);
        y = unit(name + ".depthwise", y, y.channels(), {.stride = stride, .pad = 1, .groups = y.channels()}, 3, true);
        y = unit(name + ".project", y, maps, {}, 1, false);
        x = stride == 1 && maps == x.channels() ? b.add(name + ".add", x, y) : y;
      }
    x = unit("head", x, rounded(1280 * std::max(1.0, width)), {}, 1, true);
    x = b.dropout("dropout", b.global_average_pool("pool", x), v.real("dropout", 0));
    return b.finish({{"scores", b.linear("classifier", x, v.integer("classes", 0), "normal:0.01")}});
  }
};

}  // namespace
D5_REGISTER(networks, "mobilenet-v2", MobileNetV2);
}  // namespace d5
