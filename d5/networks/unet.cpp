// SPDX-License-Identifier: Apache-2.0
// U-Net (Ronneberger, Fischer and Brox, 2015): a contracting path of two 3x3 and a maximum, an expanding path that
// doubles the image by transposed convolutions and reads what the contracting path had at that size. Convolutions are
// padded here, so that scores have the size of the image; the paper's shrink it and crop.
#include "d5/networks/builder.hpp"
#include "d5/networks/network.hpp"

namespace d5 {
namespace {

struct UNet {
  static constexpr const char* about = "Ronneberger et al. 2015; padded convolutions";
  static constexpr const char* loss = "cross-entropy";

  static std::vector<Parameter> parameters() {
    return {{"classes", "of a pixel", 2},
            {"size", "height and width of an image, a multiple of 2^depth", 512},
            {"channels", "of an image", 1},
            {"width", "maps at full size", 64},
            {"depth", "how often the image is halved", 4},
            {"dropout", "at the end of the contracting path", 0.5}};
  }

  static Graph build(const Attributes& v, Index batch, DType dtype) {
    const Index size = v.integer("size", 0), width = v.integer("width", 0);
    const int64_t depth = in_range(v, "depth", 1, 16, "unet");
    if (size < 1 || size % (Index{1} << depth) != 0)
      throw UsageError("[unet] size is {}; a multiple of {} is wanted (depth {})", size, Index{1} << depth, depth);
    Builder b("unet", batch, dtype);
    const auto pair = [&](const std::string& name, Edge x, Index maps) {
      for (const char* number : {"1", "2"})
        x = b.relu(name + ".relu" + number, b.conv(name + ".conv" + number, x, maps, 3, {.pad = 1}));
      return x;
    };
    Edge x = b.input("image", {v.integer("channels", 0), size, size});
    std::vector<Edge> skips;
    for (int64_t level = 0; level < depth; ++level) {
      x = pair(fmt::format("down{}", level), x, width << level);
      if (level == depth - 1) x = b.dropout("dropout1", x, v.real("dropout", 0));
      skips.push_back(x);
      x = b.max_pool(fmt::format("pool{}", level), x, 2, {.stride = 2});
    }
    x = b.dropout("dropout2", pair("bottom", x, width << depth), v.real("dropout", 0));
    for (int64_t level = depth; level-- > 0;) {
      const std::string name = fmt::format("up{}", level);
      x = b.conv_transpose(name + ".transpose", x, width << level, 2, {.stride = 2});
      x = pair(name, b.concat(name + ".concat", {skips[static_cast<size_t>(level)], x}), width << level);
    }
    return b.finish({{"scores", b.conv("out", x, v.integer("classes", 0), 1, {.initialiser = "lecun"})}});
  }
};

}  // namespace
D5_REGISTER(networks, "unet", UNet);
}  // namespace d5
