// SPDX-License-Identifier: Apache-2.0
// Wide residual network WRN-28-10 (Zagoruyko and Komodakis, 2016): few blocks, ten times the maps. Normalisation and
// rectification stand before convolutions; where the shape changes, the shortcut is a 1x1 of the rectified input.
#include "d5/networks/builder.hpp"
#include "d5/networks/network.hpp"

namespace d5 {
namespace {

struct WideResNet {
  static constexpr const char* about = "Zagoruyko and Komodakis 2016 (CIFAR-10)";
  static constexpr const char* loss = "cross-entropy";

  static std::vector<Parameter> parameters() {
    return {{"classes", "outputs", 10},
            {"size", "height and width of an image", 32},
            {"depth", "layers: 6 n + 4", 28},
            {"widen", "multiplies the maps", 10},
            {"width", "maps of the first convolution", 16},
            {"dropout", "between the two convolutions of a block", 0.0}};
  }

  static Graph build(const Attributes& v, Index batch, DType dtype) {
    const Index size = v.integer("size", 0), width = v.integer("width", 0),
                depth = in_range(v, "depth", 10, 1000, "wide-resnet-28-10");
    if ((depth - 4) % 6 != 0) throw UsageError("[wide-resnet-28-10] depth is {}; 10, 16, 22, 28, ... are legal", depth);
    Builder b("wide-resnet-28-10", batch, dtype);
    const auto active = [&](const std::string& name, const Edge& x) {
      return b.relu(name + ".relu", b.batch_norm(name, x));
    };
    const auto conv = [&](const std::string& name, const Edge& x, Index maps, Index kernel, Index stride) {
      return b.conv(name, x, maps, kernel, {.stride = stride, .pad = kernel / 2, .bias = false});
    };
    Edge x = conv("conv1", b.input("image", {3, size, size}), width, 3, 1);
    for (int stage = 1; stage <= 3; ++stage)
      for (Index i = 0; i < (depth - 4) / 6; ++i) {
        const std::string name = fmt::format("layer{}.{}", stage, i);
        const Index maps = (width << (stage - 1)) * v.integer("widen", 0), stride = i == 0 && stage > 1 ? 2 : 1;
        const Edge before = active(name + ".bn1", x);
        const bool same = x.channels() == maps && stride == 1;
        Edge y = active(name + ".bn2", conv(name + ".conv1", before, maps, 3, stride));
        y = conv(name + ".conv2", b.dropout(name + ".dropout", y, v.real("dropout", 0)), maps, 3, 1);
        x = b.add(name + ".add", y, same ? x : conv(name + ".shortcut", before, maps, 1, stride));
      }
    x = b.global_average_pool("avgpool", active("bn", x));
    return b.finish({{"scores", b.linear("fc", x, v.integer("classes", 0), "lecun")}});
  }
};

}  // namespace
D5_REGISTER(networks, "wide-resnet-28-10", WideResNet);
}  // namespace d5
