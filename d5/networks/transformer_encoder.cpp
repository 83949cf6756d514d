// SPDX-License-Identifier: Apache-2.0
// Transformer encoder (Vaswani et al., 2017) as BERT has it (Devlin et al., 2019), by default BERT-base for sentences
// of two classes: words, positions and kinds of sentence are added; layers of attention over all places and of two
// linear layers with Gelu, each added to its input and normalised; the first place is pooled and classified. With
// `classes` = 0 the outputs are what BERT itself gives: hidden states and the pooled one.
#include "d5/networks/network.hpp"
#include "d5/networks/transformer.hpp"

namespace d5 {
namespace {

constexpr double epsilon = 1e-12;

struct TransformerEncoder {
  static constexpr const char* about = "Vaswani et al. 2017; Devlin et al. 2019 (BERT-base)";
  static constexpr const char* loss = "cross-entropy";

  static std::vector<Parameter> parameters() {
    return {{"layers", "of the encoder", 12},
            {"width", "of a place", 768},
            {"heads", "of attention", 12},
            {"hidden", "units between the two linear layers", 3072},
            {"length", "places in a row", 128},
            {"vocabulary", "words", 30522},
            {"positions", "places that have one", 512},
            {"classes", "outputs; 0: hidden states", 2},
            {"dropout", "after embeddings and before sums", 0.1},
            attention_parameter()};
  }

  static Graph build(const Attributes& v, Index batch, DType dtype) {
    const Index length = v.integer("length", 0), width = v.integer("width", 0), classes = v.integer("classes", 0);
    const double dropout = v.real("dropout", 0);
    const Heads heads{
        .length = length,
        .heads = v.integer("heads", 0),
        .products = choice(v, "attention", {"operator", "products"}, "transformer-encoder") == "products"};
    Builder b("transformer-encoder", batch, dtype);
    const auto linear = [&](const std::string& name, const Edge& x, Index units) {
      return b.linear(name, x, units, "normal:0.02");
    };
    const std::string in = "embeddings.";
    Edge x =
        b.embedding(in + "word_embeddings", b.input("tokens", {length}, DType::i64), v.integer("vocabulary", 0), width);
    x = b.add(in + "with_position", x,
              positions(b, in + "position_embeddings", v.integer("positions", 0), length, width));
    x = b.add(in + "with_type", x,
              b.embedding(in + "token_type_embeddings", b.input("types", {length}, DType::i64), 2, width));
    x = b.dropout(in + "dropout", b.layer_norm(in + "LayerNorm", x, epsilon), dropout);
    const int64_t layers = in_range(v, "layers", 1, 1000, "transformer-encoder");
    for (int64_t i = 0; i < layers; ++i) {
      const std::string layer = fmt::format("encoder.layer.{}.", i), self = layer + "attention.self";
      const auto added = [&](const std::string& name, const Edge& y, const Edge& to) {
        const Edge fresh = b.dropout(name + ".dropout", places(b, name + ".dense", y, length), dropout);
        return b.layer_norm(name + ".LayerNorm", b.add(name + ".add", fresh, to), epsilon);
      };
      Edge y = rows(b, layer + "attention", x);
      y = attention(b, self, linear(self + ".query", y, width), linear(self + ".key", y, width),
                    linear(self + ".value", y, width), heads);
      x = added(layer + "attention.output", linear(layer + "attention.output.dense", y, width), x);
      y = linear(layer + "intermediate.dense", rows(b, layer + "intermediate", x), v.integer("hidden", 0));
      y = b.node("Gelu", layer + "intermediate.gelu", {y});
      x = added(layer + "output", linear(layer + "output.dense", y, width), x);
    }
    const Edge first =
        b.node("Gather", "pooler.first", {x, b.constant("0", Tensor::scalar(0, DType::i64))}, {{"axis", int64_t{1}}});
    const Edge pooled = b.node("Tanh", "pooler.activation", {linear("pooler.dense", first, width)});
    if (classes == 0) return b.finish({{"hidden_states", x}, {"pooled", pooled}});
    return b.finish({{"scores", linear("classifier", b.dropout("dropout", pooled, dropout), classes)}});
  }
};

}  // namespace
D5_REGISTER(networks, "transformer-encoder", TransformerEncoder);
}  // namespace d5
