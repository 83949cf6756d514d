// SPDX-License-Identifier: Apache-2.0
// SqueezeNet (Iandola et al., 2016): fire modules squeeze to few maps by 1x1 and expand by 1x1 and 3x3 side by side.
// Version 1.0 is the paper's; 1.1 of the same authors pools earlier and has a smaller first convolution.
#include <array>

#include "d5/networks/builder.hpp"
#include "d5/networks/network.hpp"

namespace d5 {
namespace {

struct SqueezeNet {
  static constexpr const char* about = "Iandola et al. 2016, versions 1.0 and 1.1";
  static constexpr const char* loss = "cross-entropy";

  static std::vector<Parameter> parameters() {
    return {{"classes", "outputs", 1000},
            {"size", "height and width of an image", 224},
            {"version", "1.0 or 1.1", 1.0},
            {"divide", "all maps by this: 1 is the published network", 1},
            {"dropout", "before the last convolution", 0.5}};
  }

  static Graph build(const Attributes& v, Index batch, DType dtype) {
    const double version = v.real("version", 0);
    if (version != 1.0 && version != 1.1) throw UsageError("[squeezenet] version is {}; 1.0 or 1.1 is wanted", version);
    const bool first = version == 1.0;
    const Index size = v.integer("size", 0), divide = in_range(v, "divide", 1, 16, "squeezenet");

    Builder b("squeezenet", batch, dtype);
    const auto fire = [&](int number, const Edge& x, Index squeeze, Index expand) {
      const std::string name = fmt::format("fire{}", number);
      const auto layer = [&](const std::string& part, const Edge& from, Index maps, Index kernel) {
        return b.relu(name + "." + part + ".relu",
                      b.conv(name + "." + part, from, maps / divide, kernel, {.pad = kernel / 2}));
      };
      const Edge small = layer("squeeze", x, squeeze, 1);
      return b.concat(name + ".concat", {layer("expand1x1", small, expand, 1), layer("expand3x3", small, expand, 3)});
    };
    struct Fire {
      Index squeeze, expand;
    };
    static constexpr std::array<Fire, 8> fires{
        {{16, 64}, {16, 64}, {32, 128}, {32, 128}, {48, 192}, {48, 192}, {64, 256}, {64, 256}}};
    const auto pools_before = [&](int number) {
      return first ? number == 5 || number == 9 : number == 4 || number == 6;
    };
    Edge x = b.input("image", {3, size, size});
    x = b.relu("relu1", b.conv("conv1", x, (first ? 96 : 64) / divide, first ? 7 : 3, {.stride = 2}));
    x = b.max_pool("pool1", x, 3, {.stride = 2, .ceil = true});
    for (int number = 2; number <= 9; ++number) {
      if (pools_before(number)) x = b.max_pool(fmt::format("pool{}", number - 1), x, 3, {.stride = 2, .ceil = true});
      const Fire& sizes = fires[static_cast<size_t>(number - 2)];
      x = fire(number, x, sizes.squeeze, sizes.expand);
    }
    x = b.dropout("dropout", x, v.real("dropout", 0));
    x = b.conv("conv10", x, v.integer("classes", 0), 1, {.initialiser = "normal:0.01"});
    x = b.global_average_pool("pool10", b.relu("relu10", x));
    return b.finish({{"scores", x}});
  }
};

}  // namespace
D5_REGISTER(networks, "squeezenet", SqueezeNet);
}  // namespace d5
