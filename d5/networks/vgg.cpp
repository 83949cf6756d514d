// SPDX-License-Identifier: Apache-2.0
// VGG-16 (Simonyan and Zisserman, 2015), their configuration D: convolutions of 3x3 in five groups with a maximum after
// each, then two wide layers.
#include <array>

#include "d5/networks/builder.hpp"
#include "d5/networks/network.hpp"

namespace d5 {
namespace {

struct Vgg16 {
  static constexpr const char* about = "Simonyan and Zisserman 2015, configuration D";
  static constexpr const char* loss = "cross-entropy";

  static std::vector<Parameter> parameters() {
    return {{"classes", "outputs", 1000},
            {"size", "height and width of an image", 224},
            {"width", "maps of the first group", 64},
            {"hidden", "units of a fully connected layer", 4096},
            {"dropout", "after fully connected layers", 0.5}};
  }

  static Graph build(const Attributes& v, Index batch, DType dtype) {
    struct Group {
      Index factor, layers;
    };
    static constexpr std::array<Group, 5> groups{{{1, 2}, {2, 2}, {4, 3}, {8, 3}, {8, 3}}};
    const Index size = v.integer("size", 0);
    Builder b("vgg-16", batch, dtype);
    Edge x = b.input("image", {3, size, size});
    int group = 1;
    for (const auto [factor, layers] : groups) {
      for (Index i = 1; i <= layers; ++i) {
        x = b.conv(fmt::format("conv{}_{}", group, i), x, factor * v.integer("width", 0), 3, {.pad = 1});
        x = b.relu(fmt::format("relu{}_{}", group, i), x);
      }
      x = b.max_pool(fmt::format("pool{}", group), x, 2, {.stride = 2});
      ++group;
    }
    x = b.flatten("flatten", x);
    for (const char* layer : {"fc6", "fc7"}) {
      x = b.relu(std::string("relu_") + layer, b.linear(layer, x, v.integer("hidden", 0)));
      x = b.dropout(std::string("dropout_") + layer, x, v.real("dropout", 0));
    }
    return b.finish({{"scores", b.linear("fc8", x, v.integer("classes", 0), "lecun")}});
  }
};

}  // namespace
D5_REGISTER(networks, "vgg-16", Vgg16);
}  // namespace d5
