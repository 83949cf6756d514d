// SPDX-License-Identifier: Apache-2.0
// Vision transformer (Dosovitskiy et al., 2021), by default ViT-B/16: patches of an image are the places, a learned one
// stands before them and is classified. Layers normalise first.
#include "d5/networks/network.hpp"
#include "d5/networks/transformer.hpp"

namespace d5 {
namespace {

constexpr double epsilon = 1e-6;

struct VisionTransformer {
  static constexpr const char* about = "Dosovitskiy et al. 2021 (ViT-B/16)";
  static constexpr const char* loss = "cross-entropy";

  static std::vector<Parameter> parameters() {
    return {{"classes", "outputs", 1000},
            {"size", "height and width of an image, a multiple of the patch", 224},
            {"patch", "height and width of a patch", 16},
            {"layers", "of the encoder", 12},
            {"width", "of a place", 768},
            {"heads", "of attention", 12},
            {"hidden", "units between the two linear layers", 3072},
            {"dropout", "after embeddings and before sums", 0.0},
            attention_parameter()};
  }

  static Graph build(const Attributes& v, Index batch, DType dtype) {
    const Index size = v.integer("size", 0), patch = v.integer("patch", 0), width = v.integer("width", 0);
    if (patch < 1 || size < patch || size % patch != 0)
      throw UsageError("[vit] size is {}, patch {}; the size must be a multiple of the patch", size, patch);
    const Index patches = (size / patch) * (size / patch), length = patches + 1;
    const double dropout = v.real("dropout", 0);
    const Heads heads{.length = length,
                      .heads = v.integer("heads", 0),
                      .products = choice(v, "attention", {"operator", "products"}, "vit") == "products"};
    Builder b("vit", batch, dtype);
    Edge x =
        b.conv("conv_proj", b.input("image", {3, size, size}), width, patch, {.stride = patch, .initialiser = "lecun"});
    x = b.reshape("patches", x, {0, width, patches});
    x = b.node("Transpose", "places", {x}, {{"perm", std::vector<int64_t>{0, 2, 1}}});
    // The learned place in front: rows of zeros are made room with on both sides, so that no size depends on the batch.
    x = b.node("Pad", "room", {x, b.constant("room.pads", {0, 1, 0, 0, 0, 0})});
    const Edge learned = b.node(
        "Pad", "class_place",
        {b.parameter("class_token", {1, 1, width}, "zeros"), b.constant("class_place.pads", {0, 0, 0, 0, patches, 0})});
    const Edge position = b.parameter("encoder.pos_embedding", {1, length, width}, "normal:0.02");
    x = b.add("embedding", x, b.add("encoder.position", position, learned));
    x = b.dropout("encoder.dropout", x, dropout);
    const int64_t layers = in_range(v, "layers", 1, 1000, "vit");
    for (int64_t i = 0; i < layers; ++i) {
      const std::string layer = fmt::format("encoder.layers.{}.", i);
      const auto added = [&](const std::string& name, const Edge& y) {
        return b.add(layer + name + ".add", x,
                     b.dropout(layer + name + ".dropout", places(b, layer + name, y, length), dropout));
      };
      Edge y = rows(b, layer + "ln_1", b.layer_norm(layer + "ln_1", x, epsilon));
      y = b.linear(layer + "self_attention.in_proj", y, 3 * width, "xavier");
      const auto qkv = b.nodes("Split", layer + "split", {y}, 3, {{"axis", int64_t{-1}}, {"num_outputs", int64_t{3}}});
      y = attention(b, layer + "self_attention", qkv[0], qkv[1], qkv[2], heads);
      x = added("self_attention.out_proj", b.linear(layer + "self_attention.out_proj", y, width, "xavier"));
      y = rows(b, layer + "ln_2", b.layer_norm(layer + "ln_2", x, epsilon));
      y = b.node("Gelu", layer + "mlp.1", {b.linear(layer + "mlp.0", y, v.integer("hidden", 0), "xavier")});
      x = added("mlp.3", b.linear(layer + "mlp.3", y, width, "xavier"));
    }
    x = b.layer_norm("encoder.ln", x, epsilon);
    x = b.node("Gather", "first", {x, b.constant("0", Tensor::scalar(0, DType::i64))}, {{"axis", int64_t{1}}});
    return b.finish({{"scores", b.linear("heads.head", x, v.integer("classes", 0), "lecun")}});
  }
};

}  // namespace
D5_REGISTER(networks, "vit", VisionTransformer);
}  // namespace d5
