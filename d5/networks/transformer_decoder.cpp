// SPDX-License-Identifier: Apache-2.0
// Transformer decoder as GPT-2 has it (Radford et al., 2019), by default the small one: words and positions are added;
// layers normalise first, a place attends to itself and those before it, Gelu is the one with tanh; words' vectors also
// score the next word.
#include <cmath>

#include "d5/networks/network.hpp"
#include "d5/networks/transformer.hpp"

namespace d5 {
namespace {

struct TransformerDecoder {
  static constexpr const char* about = "Radford et al. 2019 (GPT-2 small)";
  static constexpr const char* loss = "token-cross-entropy";

  static std::vector<Parameter> parameters() {
    return {{"layers", "of the decoder", 12},
            {"width", "of a place", 768},
            {"heads", "of attention", 12},
            {"length", "places in a row", 128},
            {"vocabulary", "words", 50257},
            {"positions", "places that have one", 1024},
            {"dropout", "after embeddings and before sums", 0.1},
            attention_parameter()};
  }

  static Graph build(const Attributes& v, Index batch, DType dtype) {
    const Index length = v.integer("length", 0), width = v.integer("width", 0), words = v.integer("vocabulary", 0);
    const int64_t layers = in_range(v, "layers", 1, 1000, "transformer-decoder");
    const double dropout = v.real("dropout", 0);
    const Heads heads{
        .length = length,
        .heads = v.integer("heads", 0),
        .causal = true,
        .products = choice(v, "attention", {"operator", "products"}, "transformer-decoder") == "products"};
    // What is added to the residual stream starts smaller, by the number of additions.
    const std::string start = "normal:0.02";
    const std::string start_added = fmt::format("normal:{}", 0.02 / std::sqrt(2 * static_cast<double>(layers)));
    Builder b("transformer-decoder", batch, dtype);
    const Edge table = b.parameter("wte.weight", {words, width}, start);
    Edge x = b.node("Gather", "wte", {table, b.input("tokens", {length}, DType::i64)});
    x = b.add("embedding", x, positions(b, "wpe", v.integer("positions", 0), length, width));
    x = b.dropout("drop", x, dropout);
    for (int64_t i = 0; i < layers; ++i) {
      const std::string layer = fmt::format("h.{}.", i);
      const auto added = [&](const std::string& name, const Edge& y) {
        return b.add(layer + name + ".add", x,
                     b.dropout(layer + name + ".dropout", places(b, layer + name, y, length), dropout));
      };
      Edge y = rows(b, layer + "ln_1", b.layer_norm(layer + "ln_1", x));
      y = b.linear(layer + "attn.c_attn", y, 3 * width, start);
      const auto qkv =
          b.nodes("Split", layer + "attn.split", {y}, 3, {{"axis", int64_t{-1}}, {"num_outputs", int64_t{3}}});
      y = attention(b, layer + "attn", qkv[0], qkv[1], qkv[2], heads);
      x = added("attn.c_proj", b.linear(layer + "attn.c_proj", y, width, start_added));
      y = rows(b, layer + "ln_2", b.layer_norm(layer + "ln_2", x));
      y = b.node("Gelu", layer + "mlp.act", {b.linear(layer + "mlp.c_fc", y, 4 * width, start)},
                 {{"approximate", "tanh"}});
      x = added("mlp.c_proj", b.linear(layer + "mlp.c_proj", y, width, start_added));
    }
    const Edge last = rows(b, "ln_f", b.layer_norm("ln_f", x));
    const Edge scores = b.node("Gemm", "lm_head", {last, table}, {{"transB", int64_t{1}}});
    return b.finish({{"scores", places(b, "lm_head", scores, length)}});
  }
};

}  // namespace
D5_REGISTER(networks, "transformer-decoder", TransformerDecoder);
}  // namespace d5
