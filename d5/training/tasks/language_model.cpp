// SPDX-License-Identifier: Apache-2.0
// The next symbol at every place. Quality: perplexity = exp(mean cross-entropy); one of V symbols at random has V.
#include <cmath>
#include <nlohmann/json.hpp>

#include "d5/training/task.hpp"

namespace d5 {
namespace {

class LanguageModel final : public Evaluation {
 public:
  static constexpr const char* about = "the next symbol at every place; perplexity";
  static constexpr const char* loss = "token-cross-entropy";
  static constexpr const char* quality = "perplexity";
  static constexpr bool larger_is_better = false;
  static constexpr DType target_type = DType::i64;

  explicit LanguageModel(const TensorSpec& scores) : Evaluation(0), symbols_(scores.shape.back()) {}

  void check_target(const Tensor& target, std::span<const Index> samples) const override {
    const auto symbols = target.values<int64_t>();
    const size_t length = samples.empty() ? 1 : symbols.size() / samples.size();
    for (size_t i = 0; i < symbols.size(); ++i)
      if (symbols[i] < 0 || symbols[i] >= symbols_)
        throw Error("[train] sample {} has symbol {}; the network has a vocabulary of {}", samples[i / length],
                    symbols[i], symbols_);
  }

  double value() const override { return std::exp(Evaluation::loss()); }
  nlohmann::json report() const override { return {{"bits_per_symbol", Evaluation::loss() / std::log(2.0)}}; }

 protected:
  void see(const Tensor&, const Tensor&, std::span<const Index>) override {}

 private:
  Index symbols_;
};

}  // namespace
D5_REGISTER(tasks, "language-model", LanguageModel);
}  // namespace d5
