// SPDX-License-Identifier: Apache-2.0
// CosmoFlow (Mathuriya et al., SC 2018): cosmological parameters from a cube of dark matter, seven 3-D convolutions and
// three wide layers with leaky rectification. The fourth convolution has stride 2 here, so that a cube of 128 ends as
// 2 x 2 x 2, the 2048 inputs that the first wide layer has in the paper.
#include <array>

#include "d5/networks/builder.hpp"
#include "d5/networks/network.hpp"

namespace d5 {
namespace {

struct CosmoFlow {
  static constexpr const char* about = "Mathuriya et al. 2018 (cosmology, 3-D)";
  static constexpr const char* loss = "mean-squared-error";

  static std::vector<Parameter> parameters() {
    return {{"outputs", "parameters to predict", 3},
            {"size", "of the cube along each axis", 128},
            {"channels", "of the cube", 1},
            {"width", "maps of the first convolution", 16},
            {"layers", "convolutions, the first so many of seven: small cubes end earlier", 7},
            {"hidden", "units of the first wide layer; the second has an eighth", 2048},
            {"dropout", "before wide layers", 0.5}};
  }

  static Graph build(const Attributes& v, Index batch, DType dtype) {
    struct Layer {
      Index factor, kernel, stride;
      bool pool;
    };
    static constexpr std::array<Layer, 7> layers{{{1, 3, 1, true},
                                                  {2, 4, 1, true},
                                                  {4, 4, 2, false},
                                                  {8, 3, 2, false},
                                                  {16, 3, 1, false},
                                                  {16, 2, 1, false},
                                                  {16, 2, 1, false}}};
    const Index size = v.integer("size", 0);
    Builder b("cosmoflow", batch, dtype);
    const auto leaky = [&](const std::string& name, const Edge& x) {
      return b.node("LeakyRelu", name + ".leaky", {x}, {{"alpha", 0.01}});
    };
    Edge x = b.input("cube", {v.integer("channels", 0), size, size, size});
    const int64_t depth = in_range(v, "layers", 1, static_cast<int64_t>(layers.size()), "cosmoflow");
    for (int64_t number = 1; number <= depth; ++number) {
      const Layer& layer = layers[static_cast<size_t>(number - 1)];
      const std::string name = fmt::format("conv{}", number);
      x = leaky(name, b.conv(name, x, layer.factor * v.integer("width", 0), layer.kernel,
                             {.stride = layer.stride, .initialiser = "xavier"}));
      if (layer.pool) x = b.average_pool(name + ".pool", x, 2, {.stride = 2});
    }
    x = b.flatten("flatten", x);
    const Index hidden = v.integer("hidden", 0);
    x = b.dropout("dropout1", x, v.real("dropout", 0));
    x = leaky("fc1", b.linear("fc1", x, hidden, "xavier"));
    x = b.dropout("dropout2", x, v.real("dropout", 0));
    x = leaky("fc2", b.linear("fc2", x, hidden / 8, "xavier"));
    x = b.dropout("dropout3", x, v.real("dropout", 0));
    return b.finish({{"predictions", b.linear("fc3", x, v.integer("outputs", 0), "xavier")}});
  }
};

}  // namespace
D5_REGISTER(networks, "cosmoflow", CosmoFlow);
}  // namespace d5
