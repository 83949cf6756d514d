// SPDX-License-Identifier: Apache-2.0
// DeepLabv3+ (Chen et al., 2018) as used on climate data (Kurth et al., "Exascale Deep Learning for Climate Analytics",
// SC 2018): a ResNet-50 whose last two stages are dilated, so that the image is an eighth; a pyramid of dilated 3x3
// with rates 12, 24, 36, a 1x1 and the mean of the image; and a decoder of transposed convolutions up to full size,
// which reads the first stage's maps at a quarter and the image itself at full size. The ResNet is the one of
// resnet.cpp (normalised after convolutions), the authors' was normalised before.
#include "d5/networks/network.hpp"
#include "d5/networks/resnet.hpp"

namespace d5 {
namespace {

struct DeepLabV3Plus {
  static constexpr const char* about = "Chen et al. 2018, as in Kurth et al. 2018 (climate)";
  static constexpr const char* loss = "cross-entropy";

  static std::vector<Parameter> parameters() {
    return {{"classes", "of a pixel", 3},
            {"height", "of an image, a multiple of 8", 768},
            {"width", "of an image, a multiple of 8", 1152},
            {"channels", "of an image", 16},
            {"maps", "of the first stage; all others are multiples of it", 64}};
  }

  static Graph build(const Attributes& v, Index batch, DType dtype) {
    const Index height = v.integer("height", 0), width = v.integer("width", 0), maps = v.integer("maps", 0);
    if (height < 8 || width < 8 || height % 8 != 0 || width % 8 != 0)
      throw UsageError("[deeplab-v3-plus] the image is {} x {}; multiples of 8 are wanted", height, width);
    if (maps < 4 || maps % 4 != 0) throw UsageError("[deeplab-v3-plus] maps is {}; a multiple of 4 is wanted", maps);
    Builder b("deeplab-v3-plus", batch, dtype);
    const auto unit = [&](const std::string& name, const Edge& x, Index out, Index kernel, Index rate = 1) {
      const Edge y =
          b.conv(name + ".conv", x, out, kernel, {.pad = kernel / 2 * rate, .dilation = rate, .bias = false});
      return b.relu(name + ".relu", b.batch_norm(name + ".bn", y));
    };
    const auto doubled = [&](const std::string& name, const Edge& x) {
      return b.conv_transpose(name, x, 4 * maps, 3, {.stride = 2, .pad = {0, 0, 1, 1}});
    };
    const Edge image = b.input("image", {v.integer("channels", 0), height, width});
    const auto stages = resnet_stages(b, image, {.blocks = {3, 4, 6, 3}, .width = maps, .first_dilated = 3});
    const Edge& deep = stages[3];

    std::vector<Edge> pyramid{unit("aspp.conv1x1", deep, 4 * maps, 1)};
    for (const Index rate : {12, 24, 36})
      pyramid.push_back(unit(fmt::format("aspp.rate{}", rate), deep, 4 * maps, 3, rate));
    const Edge mean = unit("aspp.mean", b.node("GlobalAveragePool", "aspp.pool", {deep}), 4 * maps, 1);
    pyramid.push_back(
        b.node("Expand", "aspp.expand", {mean, b.constant("aspp.size", {1, 1, deep.size(2), deep.size(3)})}));
    Edge x = unit("aspp.project", b.concat("aspp.concat", pyramid), 4 * maps, 1);

    const Edge low = unit("decoder.low", stages[0], 3 * maps / 4, 1);
    x = b.concat("decoder.quarter", {doubled("decoder.up1", x), low});
    x = unit("decoder.conv2", unit("decoder.conv1", x, 4 * maps, 3), 4 * maps, 3);
    x = doubled("decoder.up3", doubled("decoder.up2", x));
    const auto plain = [&](const std::string& name, const Edge& y, Index out) {
      return b.conv(name, y, out, 3, {.pad = 1});
    };
    const Edge skip = plain("decoder.skip2", plain("decoder.skip1", image, maps), 2 * maps);
    x = b.concat("decoder.full", {x, skip});
    x = plain("decoder.conv4", plain("decoder.conv3", x, 4 * maps), 4 * maps);
    return b.finish({{"scores", b.conv("out", x, v.integer("classes", 0), 1, {.initialiser = "lecun"})}});
  }
};

}  // namespace
D5_REGISTER(networks, "deeplab-v3-plus", DeepLabV3Plus);
}  // namespace d5
