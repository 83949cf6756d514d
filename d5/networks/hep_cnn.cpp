// SPDX-License-Identifier: Apache-2.0
// A small network for collisions in high-energy physics (Kurth et al., "Deep Learning at 15PF", SC 2017): five 3x3 with
// 128 maps, a maximum after each but the last, a mean over the image and one layer that tells signal from background.
#include "d5/networks/builder.hpp"
#include "d5/networks/network.hpp"

namespace d5 {
namespace {

struct HepCnn {
  static constexpr const char* about = "Kurth et al. 2017 (high-energy physics)";
  static constexpr const char* loss = "cross-entropy";

  static std::vector<Parameter> parameters() {
    return {{"classes", "outputs", 2},
            {"size", "height and width of an image", 224},
            {"channels", "of an image: energies and tracks", 3},
            {"width", "maps of a convolution", 128},
            {"depth", "convolutions", 5}};
  }

  static Graph build(const Attributes& v, Index batch, DType dtype) {
    const Index size = v.integer("size", 0), depth = in_range(v, "depth", 1, 64, "hep-cnn");
    Builder b("hep-cnn", batch, dtype);
    Edge x = b.input("image", {v.integer("channels", 0), size, size});
    for (Index i = 1; i <= depth; ++i) {
      x = b.relu(fmt::format("relu{}", i), b.conv(fmt::format("conv{}", i), x, v.integer("width", 0), 3, {.pad = 1}));
      if (i < depth) x = b.max_pool(fmt::format("pool{}", i), x, 2, {.stride = 2});
    }
    x = b.global_average_pool("mean", x);
    return b.finish({{"scores", b.linear("fc", x, v.integer("classes", 0), "lecun")}});
  }
};

}  // namespace
D5_REGISTER(networks, "hep-cnn", HepCnn);
}  // namespace d5
