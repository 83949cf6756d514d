// SPDX-License-Identifier: Apache-2.0
// DenseNet-121 (Huang et al., 2017), DenseNet-BC: every layer reads what all layers of its block made. A layer is
// normalise, rectify, 1x1 to four times the growth, normalise, rectify, 3x3; between blocks a 1x1 halves the maps and
// an average halves the image.
#include <array>

#include "d5/networks/builder.hpp"
#include "d5/networks/network.hpp"

namespace d5 {
namespace {

struct DenseNet121 {
  static constexpr const char* about = "Huang et al. 2017, DenseNet-BC";
  static constexpr const char* loss = "cross-entropy";

  static std::vector<Parameter> parameters() {
    return {{"classes", "outputs", 1000},
            {"size", "height and width of an image", 224},
            {"growth", "maps that a layer adds", 32}};
  }

  static Graph build(const Attributes& v, Index batch, DType dtype) {
    const Index size = v.integer("size", 0), growth = v.integer("growth", 0);
    static constexpr std::array<int, 4> blocks{6, 12, 24, 16};
    Builder b("densenet-121", batch, dtype);
    const auto active = [&](const std::string& name, const Edge& x) {
      return b.relu(name + ".relu", b.batch_norm(name, x));
    };
    Edge x = b.input("image", {3, size, size});
    x = b.conv("conv0", x, 2 * growth, 7, {.stride = 2, .pad = 3, .bias = false});
    x = b.max_pool("pool0", active("norm0", x), 3, {.stride = 2, .pad = 1});
    for (size_t block = 0; block < blocks.size(); ++block) {
      for (int layer = 1; layer <= blocks[block]; ++layer) {
        const std::string name = fmt::format("denseblock{}.denselayer{}", block + 1, layer);
        Edge y = b.conv(name + ".conv1", active(name + ".norm1", x), 4 * growth, 1, {.bias = false});
        y = b.conv(name + ".conv2", active(name + ".norm2", y), growth, 3, {.pad = 1, .bias = false});
        x = b.concat(name + ".concat", {x, y});
      }
      if (block + 1 == blocks.size()) break;
      const std::string name = fmt::format("transition{}", block + 1);
      x = b.conv(name + ".conv", active(name + ".norm", x), x.channels() / 2, 1, {.bias = false});
      x = b.average_pool(name + ".pool", x, 2, {.stride = 2});
    }
    x = b.global_average_pool("pool5", active("norm5", x));
    return b.finish({{"scores", b.linear("classifier", x, v.integer("classes", 0), "lecun")}});
  }
};

}  // namespace
D5_REGISTER(networks, "densenet-121", DenseNet121);
}  // namespace d5
