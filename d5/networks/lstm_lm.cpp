// SPDX-License-Identifier: Apache-2.0
// Language model of long short-term memory (Zaremba, Sutskever and Vinyals, 2014), their medium size: words, layers of
// LSTM with dropout between them but not along time, a score for every word of the vocabulary at every place.
#include "d5/networks/builder.hpp"
#include "d5/networks/network.hpp"

namespace d5 {
namespace {

struct LstmLanguageModel {
  static constexpr const char* about = "Zaremba et al. 2014, medium";
  static constexpr const char* loss = "token-cross-entropy";

  static std::vector<Parameter> parameters() {
    return {{"vocabulary", "words", 10000},
            {"length", "words in a row", 35},
            {"width", "units of a layer, and of a word's vector", 650},
            {"layers", "of LSTM", 2},
            {"dropout", "before and after layers", 0.5}};
  }

  static Graph build(const Attributes& v, Index batch, DType dtype) {
    const Index words = v.integer("vocabulary", 0), length = v.integer("length", 0), width = v.integer("width", 0);
    const std::string start = "uniform:0.05";
    Builder b("lstm-lm", batch, dtype);
    // Samples stay the first axis for Dropout, whose masks belong to samples; ONNX's LSTM has time first.
    const auto swapped = [&](const std::string& name, const Edge& x) {
      return b.node("Transpose", name, {x}, {{"perm", std::vector<int64_t>{1, 0, 2}}});
    };
    Edge x = b.embedding("embedding", b.input("tokens", {length}, DType::i64), words, width, start);
    const int64_t layers = in_range(v, "layers", 1, 1000, "lstm-lm");
    for (int64_t i = 0; i < layers; ++i) {
      const std::string name = fmt::format("lstm.{}", i);
      x = b.dropout(name + ".dropout", x, v.real("dropout", 0));
      x = b.node(
          "LSTM", name,
          {swapped(name + ".in", x), b.parameter(name + ".W", {1, 4 * width, width}, start),
           b.parameter(name + ".R", {1, 4 * width, width}, start), b.parameter(name + ".B", {1, 8 * width}, start)},
          {{"hidden_size", width}});
      x = b.node("Squeeze", name + ".squeeze", {x, b.constant("direction axis", {1})});
      x = swapped(name + ".out", x);
    }
    x = b.dropout("dropout", x, v.real("dropout", 0));
    x = b.linear("decoder", b.reshape("rows", x, {-1, width}), words, start);
    return b.finish({{"scores", b.reshape("decoder.words", x, {-1, length, words})}});
  }
};

}  // namespace
D5_REGISTER(networks, "lstm-lm", LstmLanguageModel);
}  // namespace d5
