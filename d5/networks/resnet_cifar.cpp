// SPDX-License-Identifier: Apache-2.0
// Residual networks for images of 32 (He et al., 2016, section 4.2): 6 n + 2 layers, three stages of n blocks of two
// 3x3 with 16, 32 and 64 maps. Shortcuts that change the shape take every second pixel and fill up with zero maps
// (option A, the paper's) or are projections (option B).
#include "d5/networks/builder.hpp"
#include "d5/networks/network.hpp"

namespace d5 {
namespace {

template <int depth>
struct CifarResNet {
  static constexpr const char* about = "He et al. 2016, section 4.2 (CIFAR-10)";
  static constexpr const char* loss = "cross-entropy";

  static std::vector<Parameter> parameters() {
    return {{"classes", "outputs", 10},
            {"size", "height and width of an image", 32},
            {"width", "maps of the first stage", 16},
            {"shortcut", "A: zero maps, B: projections", "A"}};
  }

  static Graph build(const Attributes& v, Index batch, DType dtype) {
    const Index size = v.integer("size", 0), width = v.integer("width", 0);
    const std::string name = fmt::format("resnet-{}", depth), option = choice(v, "shortcut", {"A", "B"}, name);
    Builder b(name, batch, dtype);
    const auto unit = [&](const std::string& conv, const std::string& norm, const Edge& x, Index maps, Index kernel,
                          Index stride) {
      return b.batch_norm(norm, b.conv(conv, x, maps, kernel, {.stride = stride, .pad = kernel / 2, .bias = false}));
    };
    Edge x = b.relu("relu", unit("conv1", "bn1", b.input("image", {3, size, size}), width, 3, 1));
    for (int stage = 1; stage <= 3; ++stage)
      for (int i = 0; i < (depth - 2) / 6; ++i) {
        const std::string block = fmt::format("layer{}.{}", stage, i);
        const Index maps = width << (stage - 1), stride = i == 0 && stage > 1 ? 2 : 1;
        Edge y = b.relu(block + ".relu1", unit(block + ".conv1", block + ".bn1", x, maps, 3, stride));
        y = unit(block + ".conv2", block + ".bn2", y, maps, 3, 1);
        Edge shortcut = x;
        if (stride == 2 && option == "B")
          shortcut = unit(block + ".shortcut.0", block + ".shortcut.1", x, maps, 1, 2);
        else if (stride == 2)
          shortcut = with_zero_maps(b, block + ".shortcut", x, maps);
        x = b.relu(block + ".relu", b.add(block + ".add", y, shortcut));
      }
    x = b.global_average_pool("avgpool", x);
    return b.finish({{"scores", b.linear("fc", x, v.integer("classes", 0), "lecun")}});
  }

 private:
  // Half of the zero maps before, half behind.
  static Edge with_zero_maps(Builder& b, const std::string& name, const Edge& x, Index maps) {
    const Index before = (maps - x.channels()) / 2, behind = maps - x.channels() - before;
    const Edge small =
        b.node("Slice", name + ".slice",
               {x, b.constant("shortcut starts", {0, 0}), b.constant("shortcut ends", {x.size(2), x.size(3)}),
                b.constant("shortcut axes", {2, 3}), b.constant("shortcut steps", {2, 2})});
    return b.node("Pad", name, {small, b.constant(name + ".pads", {0, before, 0, 0, 0, behind, 0, 0})});
  }
};

}  // namespace
D5_REGISTER(networks, "resnet-20", CifarResNet<20>);
D5_REGISTER(networks, "resnet-32", CifarResNet<32>);
D5_REGISTER(networks, "resnet-44", CifarResNet<44>);
D5_REGISTER(networks, "resnet-56", CifarResNet<56>);
D5_REGISTER(networks, "resnet-110", CifarResNet<110>);
}  // namespace d5
