// SPDX-License-Identifier: Apache-2.0
// P(sample(p) = i) = weight_i / sum of weights, independent draws, by Walker's alias table in Vose's construction
// (1991): column c, uniform, keeps its own sample with probability keep_c and gives alias_c otherwise.
#include <cmath>

#include "d5/core/rng.hpp"
#include "d5/datasets/sampler.hpp"
#include "d5/datasets/values.hpp"

namespace d5 {
namespace {

class WeightedSampler final : public Sampler {
 public:
  static constexpr const char* about = "samples drawn with replacement, in proportion to their weights";
  static std::vector<DataOption> options() {
    return {{"draws", "positions of an epoch; 0: as many as there are samples", int64_t{0}},
            {"weights", "one for each sample", std::vector<double>{}}};
  }

  WeightedSampler(Index samples, uint64_t seed, const Attributes& values)
      : draws_(integer_in(values, "draws", 0, Index{1} << 62, place)), seed_(seed) {
    const std::vector<double> weights = values.reals("weights");
    if (static_cast<Index>(weights.size()) != samples)
      throw UsageError("{} {} weights for {} samples", place, weights.size(), samples);
    double sum = 0;
    for (size_t i = 0; i < weights.size(); ++i) {
      if (!(weights[i] >= 0) || std::isinf(weights[i]))
        throw UsageError("{} weight {} is {}; legal: 0 and finite numbers above it", place, i, weights[i]);
      sum += weights[i];
    }
    if (samples > 0 && !(sum > 0 && std::isfinite(sum)))
      throw UsageError("{} the weights add up to {}; legal: a finite number above 0", place, sum);
    if (draws_ == 0 || samples == 0) draws_ = samples;
    build(weights, sum);
  }
  Index size() const override { return draws_; }
  void take(Index epoch, Index first, Index step, std::span<Index> samples) const override {
    const Rng draw(Rng(seed_, stream_of("sampler weighted")).bits(static_cast<uint64_t>(epoch)));
    for (Index& sample : samples) {
      const auto number = 2 * static_cast<uint64_t>(first);
      const uint64_t column = draw.below(number, keep_.size());
      sample = draw.uniform(number + 1) < keep_[column] ? static_cast<Index>(column) : alias_[column];
      first += step;
    }
  }

 private:
  static constexpr const char* place = "[sampler weighted]";

  void build(const std::vector<double>& weights, double sum) {
    const size_t n = weights.size();
    keep_.resize(n);
    alias_.resize(n);
    std::vector<size_t> small, large;
    size_t heaviest = 0;
    for (size_t i = 0; i < n; ++i) {
      keep_[i] = weights[i] / sum * static_cast<double>(n);
      alias_[i] = static_cast<Index>(i);
      (keep_[i] < 1 ? small : large).push_back(i);
      if (weights[i] > weights[heaviest]) heaviest = i;
    }
    while (!small.empty() && !large.empty()) {
      const size_t low = small.back(), high = large.back();
      small.pop_back();
      alias_[low] = static_cast<Index>(high);
      keep_[high] -= 1 - keep_[low];
      if (keep_[high] < 1) {
        large.pop_back();
        small.push_back(high);
      }
    }
    // What rounding leaves over is full, but a weight of 0 is never drawn.
    for (const size_t i : large) keep_[i] = 1;
    for (const size_t i : small) weights[i] > 0 ? void(keep_[i] = 1) : void(alias_[i] = static_cast<Index>(heaviest));
  }

  Index draws_;
  uint64_t seed_;
  std::vector<double> keep_;
  std::vector<Index> alias_;
};

}  // namespace
D5_REGISTER(samplers, "weighted", WeightedSampler);
}  // namespace d5
