// SPDX-License-Identifier: Apache-2.0
// Tiramisu (Jegou et al., 2017) as used on climate data (Kurth et al., "Exascale Deep Learning for Climate Analytics",
// SC 2018): growth 32 and 5x5 instead of 16 and 3x3, blocks of 2, 2, 2, 4, 5 layers, images of 768 x 1152 with 16
// channels, three classes of a pixel (nothing, tropical cyclone, atmospheric river).
//   layer   convolve, normalise, rectify, drop; what it makes is appended to what it read
//   down    1x1 of stride 2      up   transposed 3x3 of stride 2 of what the last block alone made, beside the skip
#include <algorithm>

#include "d5/networks/builder.hpp"
#include "d5/networks/network.hpp"

namespace d5 {
namespace {

struct Tiramisu {
  static constexpr const char* about = "Jegou et al. 2017, as in Kurth et al. 2018 (climate)";
  static constexpr const char* loss = "cross-entropy";

  static std::vector<Parameter> parameters() {
    return {{"classes", "of a pixel", 3},
            {"height", "of an image", 768},
            {"width", "of an image", 1152},
            {"channels", "of an image", 16},
            {"blocks", "layers of each block on the way down, the last at the bottom", "2x2x2x4x5"},
            {"growth", "maps that a layer adds", 32},
            {"filters", "maps of the first convolution", 64},
            {"filter", "size of the filters of a layer", 5},
            {"batch_norm", "normalise", true},
            {"dropout", "after every layer", 0.2}};
  }

  static Graph build(const Attributes& v, Index batch, DType dtype) {
    const Shape blocks = parse_shape(v.text("blocks", ""));
    if (blocks.rank() < 1 || blocks.rank() > 16 ||
        std::ranges::any_of(blocks, [](Index n) { return n < 1 || n > 1000; }))
      throw UsageError("[tiramisu] blocks is '{}'; 1 to 16 numbers from 1 to 1000 are wanted, as in 2x2x4",
                       v.text("blocks", ""));
    const Index height = v.integer("height", 0), width = v.integer("width", 0);
    const Index smallest = Index{1} << (blocks.rank() - 1);
    if (height < 1 || width < 1 || height % smallest != 0 || width % smallest != 0)
      throw UsageError("[tiramisu] the image is {} x {}; multiples of {} are wanted ({} blocks)", height, width,
                       smallest, blocks.rank());
    const Index growth = v.integer("growth", 0), kernel = v.integer("filter", 0);
    Builder b("tiramisu", batch, dtype);
    const auto layer = [&](const std::string& name, const Edge& x, Index maps, Index size, Index stride) {
      Edge y = b.conv(name + ".conv", x, maps, size, {.stride = stride, .pad = size / 2});
      if (v.flag("batch_norm", true)) y = b.batch_norm(name + ".bn", y);
      return b.dropout(name + ".dropout", b.relu(name + ".relu", y), v.real("dropout", 0));
    };
    std::vector<Edge> added;  // what the last block made
    const auto dense = [&](const std::string& name, Edge x, Index layers) {
      added.clear();
      for (Index i = 0; i < layers; ++i) {
        added.push_back(layer(fmt::format("{}.{}", name, i), x, growth, kernel, 1));
        x = b.concat(fmt::format("{}.{}.concat", name, i), {x, added.back()});
      }
      return x;
    };

    Edge x =
        layer("first", b.input("image", {v.integer("channels", 0), height, width}), v.integer("filters", 0), kernel, 1);
    std::vector<Edge> skips;
    for (size_t i = 0; i < blocks.rank(); ++i) {
      x = dense(fmt::format("down{}", i), x, blocks[i]);
      if (i + 1 == blocks.rank()) break;
      skips.push_back(x);
      x = layer(fmt::format("transition{}", i), x, x.channels(), 1, 2);
    }
    for (size_t i = skips.size(); i-- > 0;) {
      const std::string name = fmt::format("up{}", i);
      const Edge fresh = added.size() == 1 ? added[0] : b.concat(name + ".fresh", added);
      const Edge large =
          b.conv_transpose(name + ".transpose", fresh, fresh.channels(), 3, {.stride = 2, .pad = {0, 0, 1, 1}});
      x = dense(name, b.concat(name + ".concat", {large, skips[i]}), blocks[i]);
    }
    return b.finish({{"scores", b.conv("out", x, v.integer("classes", 0), 1, {.initialiser = "lecun"})}});
  }
};

}  // namespace
D5_REGISTER(networks, "tiramisu", Tiramisu);
}  // namespace d5
