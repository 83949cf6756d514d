// SPDX-License-Identifier: Apache-2.0
// LeNet-5 (LeCun, Bottou, Bengio and Haffner, 1998) as it is taught today: every map of the second convolution reads
// all maps before it, rectified units and maxima instead of scaled tangents and trained averages, scores instead of
// radial basis functions. Images of 28 are padded to the 32 of the paper by the first convolution.
#include "d5/networks/builder.hpp"
#include "d5/networks/network.hpp"

namespace d5 {
namespace {

struct LeNet {
  static constexpr const char* about = "LeCun et al. 1998; rectified units, maxima";
  static constexpr const char* loss = "cross-entropy";

  static std::vector<Parameter> parameters() {
    return {{"classes", "outputs", 10},
            {"size", "height and width of an image", 28},
            {"channels", "of an image", 1},
            {"activation", "Relu, or the paper's Tanh", "Relu"},
            {"pool", "max, or the paper's average", "max"}};
  }

  static Graph build(const Attributes& v, Index batch, DType dtype) {
    const Index size = v.integer("size", 0);
    const std::string activation = choice(v, "activation", {"Relu", "Tanh", "Sigmoid"}, "lenet");
    const std::string pool = choice(v, "pool", {"max", "average"}, "lenet");

    Builder b("lenet", batch, dtype);
    const auto pooled = [&](const std::string& name, const Edge& x) {
      const Edge active = b.node(activation, name + ".activation", {x});
      return pool == "max" ? b.max_pool(name + ".pool", active, 2, {.stride = 2})
                           : b.average_pool(name + ".pool", active, 2, {.stride = 2});
    };
    Edge x = b.input("image", {v.integer("channels", 0), size, size});
    x = pooled("conv1", b.conv("conv1", x, 6, 5, {.pad = 2}));
    x = pooled("conv2", b.conv("conv2", x, 16, 5));
    x = b.flatten("flatten", x);
    x = b.node(activation, "fc1.activation", {b.linear("fc1", x, 120)});
    x = b.node(activation, "fc2.activation", {b.linear("fc2", x, 84)});
    x = b.linear("fc3", x, v.integer("classes", 0), "lecun");
    return b.finish({{"scores", x}});
  }
};

}  // namespace
D5_REGISTER(networks, "lenet", LeNet);
}  // namespace d5
