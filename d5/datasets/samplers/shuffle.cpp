// SPDX-License-Identifier: Apache-2.0
// sample(p) = permutation of the epoch at p: every sample exactly once, another order each epoch, no table.
#include "d5/datasets/permutation.hpp"
#include "d5/datasets/sampler.hpp"

namespace d5 {
namespace {

class ShuffleSampler final : public Sampler {
 public:
  static constexpr const char* about = "every sample once, in a random order that differs from epoch to epoch";
  static std::vector<DataOption> options() { return {}; }

  ShuffleSampler(Index samples, uint64_t seed, const Attributes&)
      : samples_(samples), keys_(seed, stream_of("sampler shuffle")) {}
  Index size() const override { return samples_; }
  void take(Index epoch, Index first, Index step, std::span<Index> samples) const override {
    const Permutation order(samples_, keys_, static_cast<uint64_t>(epoch) * Permutation::rounds);
    for (Index& sample : samples) {
      sample = order(first);
      first += step;
    }
  }

 private:
  Index samples_;
  Rng keys_;
};

}  // namespace
D5_REGISTER(samplers, "shuffle", ShuffleSampler);
}  // namespace d5
