// SPDX-License-Identifier: Apache-2.0
// The two networks of a deep convolutional adversarial pair (Radford, Metz and Chintala, 2016) as CosmoGAN has them
// (Mustafa et al., 2019): maps of weak gravitational lensing, 256 x 256 with one channel, 5x5 of stride 2 throughout.
//   generator       noise -> linear -> transposed convolutions, normalised and rectified -> tanh
//   discriminator   convolutions, normalised but the first, leaky -> one logit: how real
// The generator is trained through the discriminator: its output gradient is seeded with the other's input gradient.
#include "d5/networks/builder.hpp"
#include "d5/networks/network.hpp"

namespace d5 {
namespace {

// As TensorFlow's "SAME" has it: a 5x5 of stride 2 halves, or doubles, an even image.
const ConvOptions halving{.stride = 2, .pad = {1, 1, 2, 2}, .initialiser = "normal:0.02"};

std::vector<Parameter> common_parameters() {
  return {{"size", "height and width of an image, a multiple of 2^depth", 256},
          {"channels", "of an image", 1},
          {"width", "maps of the layer next to the image", 64},
          {"depth", "convolutions", 4}};
}

Index smallest(const Attributes& v, std::string_view network) {
  const Index size = v.integer("size", 0), depth = in_range(v, "depth", 1, 16, network);
  if (size < 1 || size % (Index{1} << depth) != 0)
    throw UsageError("[{}] size is {}, depth {}; a multiple of 2^depth is wanted", network, size, depth);
  return size >> depth;
}

struct Generator {
  static constexpr const char* about = "Radford et al. 2016, as in Mustafa et al. 2019 (CosmoGAN)";
  static constexpr const char* loss = "";

  static std::vector<Parameter> parameters() {
    std::vector<Parameter> all = common_parameters();
    all.push_back({"noise", "random numbers for an image", 64});
    return all;
  }

  static Graph build(const Attributes& v, Index batch, DType dtype) {
    const Index side = smallest(v, "dcgan-generator"), depth = v.integer("depth", 0), width = v.integer("width", 0);
    const Index maps = width << (depth - 1);
    Builder b("dcgan-generator", batch, dtype);
    const auto active = [&](Index i, const Edge& x) {
      return b.relu(fmt::format("relu{}", i), b.batch_norm(fmt::format("bn{}", i), x));
    };
    Edge x =
        b.linear("h0", b.input("noise", {v.integer("noise", 0)}), Shape{maps, side, side}.elements(), "normal:0.02");
    x = active(0, b.reshape("h0.image", x, {0, maps, side, side}));
    for (Index i = 1; i < depth; ++i) x = active(i, b.conv_transpose(fmt::format("h{}", i), x, maps >> i, 5, halving));
    x = b.conv_transpose(fmt::format("h{}", depth), x, v.integer("channels", 0), 5, halving);
    return b.finish({{"image", b.node("Tanh", "tanh", {x})}});
  }
};

struct Discriminator {
  static constexpr const char* about = "Radford et al. 2016, as in Mustafa et al. 2019 (CosmoGAN)";
  static constexpr const char* loss = "binary-cross-entropy";

  static std::vector<Parameter> parameters() { return common_parameters(); }

  static Graph build(const Attributes& v, Index batch, DType dtype) {
    smallest(v, "dcgan-discriminator");
    const Index size = v.integer("size", 0), depth = v.integer("depth", 0);
    Builder b("dcgan-discriminator", batch, dtype);
    Edge x = b.input("image", {v.integer("channels", 0), size, size});
    for (Index i = 0; i < depth; ++i) {
      x = b.conv(fmt::format("h{}", i), x, v.integer("width", 0) << i, 5, halving);
      if (i > 0) x = b.batch_norm(fmt::format("bn{}", i), x);
      x = b.node("LeakyRelu", fmt::format("leaky{}", i), {x}, {{"alpha", 0.2}});
    }
    x = b.linear(fmt::format("h{}", depth), b.flatten("flatten", x), 1, "normal:0.02");
    return b.finish({{"logit", x}});
  }
};

}  // namespace
D5_REGISTER(networks, "dcgan-generator", Generator);
D5_REGISTER(networks, "dcgan-discriminator", Discriminator);
}  // namespace d5
