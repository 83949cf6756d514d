// SPDX-License-Identifier: Apache-2.0
// AlexNet (Krizhevsky, Sutskever and Hinton, 2012). Variants:
//   2014   one tower of 64, 192, 384, 256, 256 maps without normalisation (Krizhevsky, "One weird trick", 2014), as
//          torchvision has it; images of 224
//   2012   the paper's 96, 256, 384, 384, 256 maps with local response normalisation; images of 227. `groups` = 2 keeps
//          the two towers apart in the second, fourth and fifth convolution, 1 merges them
#include "d5/networks/builder.hpp"
#include "d5/networks/network.hpp"

namespace d5 {
namespace {

struct AlexNet {
  static constexpr const char* about = "Krizhevsky et al. 2012, 2014 (torchvision's)";
  static constexpr const char* loss = "cross-entropy";

  static std::vector<Parameter> parameters() {
    return {{"classes", "outputs", 1000},
            {"size", "height and width of an image; 0: 224, or 227 of the paper", 0},
            {"variant", "2014 or 2012", 2014},
            {"groups", "towers of variant 2012: 1 or 2", 2},
            {"width", "units of a fully connected layer", 4096},
            {"divide", "all maps by this: 1 is the published network", 1},
            {"dropout", "before fully connected layers", 0.5}};
  }

  static Graph build(const Attributes& v, Index batch, DType dtype) {
    const int64_t variant = v.integer("variant", 0), groups = in_range(v, "groups", 1, 2, "alexnet");
    if (variant != 2014 && variant != 2012)
      throw UsageError("[alexnet] variant is {}; 2012 or 2014 is wanted", variant);
    const bool paper = variant == 2012;
    const Index size = v.integer("size", 0) > 0 ? v.integer("size", 0) : paper ? 227 : 224;
    const Index towers = paper ? groups : 1, divide = in_range(v, "divide", 1, 32, "alexnet");
    const double dropout = v.real("dropout", 0);

    Builder b("alexnet", batch, dtype);
    const auto normalised = [&](const std::string& name, const Edge& x) {
      if (!paper) return x;
      return b.node("LRN", name, {x}, {{"size", int64_t{5}}, {"alpha", 1e-4}, {"beta", 0.75}, {"bias", 2.0}});
    };
    const auto conv = [&](const std::string& name, const Edge& x, Index maps, Index kernel,
                          const ConvOptions& options) { return b.conv(name, x, maps / divide, kernel, options); };
    Edge x = b.input("image", {3, size, size});
    x = b.relu("relu1", conv("conv1", x, paper ? 96 : 64, 11, {.stride = 4, .pad = paper ? 0 : 2}));
    x = b.max_pool("pool1", normalised("norm1", x), 3, {.stride = 2});
    x = b.relu("relu2", conv("conv2", x, paper ? 256 : 192, 5, {.pad = 2, .groups = towers}));
    x = b.max_pool("pool2", normalised("norm2", x), 3, {.stride = 2});
    x = b.relu("relu3", conv("conv3", x, 384, 3, {.pad = 1}));
    x = b.relu("relu4", conv("conv4", x, paper ? 384 : 256, 3, {.pad = 1, .groups = towers}));
    x = b.relu("relu5", conv("conv5", x, 256, 3, {.pad = 1, .groups = towers}));
    x = b.flatten("flatten", b.max_pool("pool5", x, 3, {.stride = 2}));
    for (const char* layer : {"fc6", "fc7"}) {
      x = b.dropout(std::string("dropout_") + layer, x, dropout);
      x = b.linear(layer, x, v.integer("width", 0));
      x = b.relu(std::string("relu_") + layer, x);
    }
    return b.finish({{"scores", b.linear("fc8", x, v.integer("classes", 0), "lecun")}});
  }
};

}  // namespace
D5_REGISTER(networks, "alexnet", AlexNet);
}  // namespace d5
