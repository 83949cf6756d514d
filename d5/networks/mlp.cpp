// SPDX-License-Identifier: Apache-2.0
// Multi-layer perceptron (Rumelhart, Hinton and Williams, 1986): layers of `width` rectified units over flat inputs.
//   x = relu(W x + b), depth times;   scores = W x + b
#include "d5/networks/builder.hpp"
#include "d5/networks/network.hpp"

namespace d5 {
namespace {

struct Mlp {
  static constexpr const char* about = "Rumelhart et al. 1986; rectified units";
  static constexpr const char* loss = "cross-entropy";

  static std::vector<Parameter> parameters() {
    return {{"features", "inputs", 784},
            {"width", "units of a hidden layer", 512},
            {"depth", "hidden layers", 2},
            {"classes", "outputs", 10}};
  }

  static Graph build(const Attributes& v, Index batch, DType dtype) {
    Builder b("mlp", batch, dtype);
    Edge x = b.input("features", {v.integer("features", 0)});
    const int64_t depth = in_range(v, "depth", 0, 10000, "mlp");
    for (int64_t i = 0; i < depth; ++i) {
      x = b.linear(fmt::format("layers.{}", i), x, v.integer("width", 0));
      x = b.relu(fmt::format("relu.{}", i), x);
    }
    x = b.linear("classifier", x, v.integer("classes", 0), "lecun");
    return b.finish({{"scores", x}});
  }
};

}  // namespace
D5_REGISTER(networks, "mlp", Mlp);
}  // namespace d5
