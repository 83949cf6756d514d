// SPDX-License-Identifier: Apache-2.0
// Text of a known entropy: a Markov chain over `symbols` letters. Row a of the transition matrix is p_ab proportional
// to e_ab^sharpness with e exponential; pi is its stationary distribution, from which every sample begins, so that
//   H = - sum_a pi_a sum_b p_ab log2 p_ab   bits per symbol
// is the least mean loss of any model that predicts the next symbol (one that knows the matrix needs one symbol of
// context).
#include <algorithm>
#include <cmath>

#include "d5/datasets/generators.hpp"

namespace d5 {
namespace {

constexpr const char* place = "[generated-text]";

class MarkovText final : public Generator {
 public:
  static constexpr const char* about = "text of a known entropy, from a Markov chain";
  static std::vector<DataOption> options() {
    return with_common({{"symbols", "of the alphabet", int64_t{27}},
                        {"length", "of a sample", int64_t{128}},
                        {"sharpness", "0: all symbols equally likely; larger: fewer likely successors", 2.0}},
                       100000);
  }

  explicit MarkovText(const Attributes& values) : Generator("generated-text", values) {
    symbols_ = integer_in(values, "symbols", 2, 256, place);
    length_ = integer_in(values, "length", 1, Index{1} << 30, place);
    const double sharpness = real_in(values, "sharpness", 0, 20, place);
    // `next` is `text` one symbol later: what a model of the text predicts.
    fields_ = {{"text", DType::u8, Shape{length_}, symbols_}, {"next", DType::u8, Shape{length_}, symbols_}};
    const auto n = static_cast<size_t>(symbols_);
    const Rng rng = of_set("transitions");
    cumulative_.resize(n * n);
    std::vector<double> p(n * n);
    for (size_t a = 0; a < n; ++a) {
      double sum = 0;
      for (size_t b = 0; b < n; ++b)
        sum += p[a * n + b] = std::pow(-std::log(1 - rng.uniform(a * n + b)) + 1e-3, sharpness);
      double below = 0;
      for (size_t b = 0; b < n; ++b) {
        p[a * n + b] /= sum;
        cumulative_[a * n + b] = below += p[a * n + b];
      }
      cumulative_[a * n + n - 1] = 1;
    }
    settle(p);
    for (size_t a = 0; a < n; ++a)
      for (size_t b = 0; b < n; ++b) entropy_ -= start_[a] * p[a * n + b] * std::log2(p[a * n + b]);
    double below = 0;
    for (double& value : start_) value = below += value;
    start_.back() = 1;
  }

  void read(Index i, Sample& into) const override {
    const Rng rng = of_sample(i);
    uint8_t* text = written(into, 0).values<uint8_t>().data();
    uint8_t* next = written(into, 1).values<uint8_t>().data();
    const auto n = static_cast<size_t>(symbols_);
    const auto draw = [&](const double* cumulative, uint64_t number) {
      return static_cast<size_t>(std::upper_bound(cumulative, cumulative + n, rng.uniform(number)) - cumulative);
    };
    size_t at = draw(start_.data(), 0);
    for (Index t = 0; t < length_; ++t) {
      text[t] = static_cast<uint8_t>(at);
      at = draw(cumulative_.data() + at * n, static_cast<uint64_t>(t) + 1);
      next[t] = static_cast<uint8_t>(at);
    }
  }

  std::optional<Optimum> optimum() const override {
    return Optimum{"bits per symbol", entropy_, "the entropy of the source"};
  }

 private:
  // pi P = pi by powers of P: all entries are positive, so it converges from anywhere.
  void settle(const std::vector<double>& p) {
    const auto n = static_cast<size_t>(symbols_);
    start_.assign(n, 1.0 / static_cast<double>(n));
    for (int step = 0; step < 100000; ++step) {
      std::vector<double> next(n);
      for (size_t a = 0; a < n; ++a)
        for (size_t b = 0; b < n; ++b) next[b] += start_[a] * p[a * n + b];
      double change = 0;
      for (size_t a = 0; a < n; ++a) change += std::abs(next[a] - start_[a]);
      start_ = std::move(next);
      if (change < 1e-14) return;
    }
    throw UsageError("{} the chain does not settle: lower its sharpness", place);
  }

  Index symbols_, length_;
  double entropy_ = 0;
  std::vector<double> start_, cumulative_;  // both as running sums
};

}  // namespace
D5_REGISTER(datasets, "generated-text", Generated<MarkovText>);
}  // namespace d5
