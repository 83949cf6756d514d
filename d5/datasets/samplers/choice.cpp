// SPDX-License-Identifier: Apache-2.0
// sample(p) uniform and independent of the others: some come twice, some not at all.
#include "d5/core/rng.hpp"
#include "d5/datasets/sampler.hpp"
#include "d5/datasets/values.hpp"

namespace d5 {
namespace {

class ChoiceSampler final : public Sampler {
 public:
  static constexpr const char* about = "samples drawn with replacement, all equally likely";
  static std::vector<DataOption> options() {
    return {{"draws", "positions of an epoch; 0: as many as there are samples", int64_t{0}}};
  }

  ChoiceSampler(Index samples, uint64_t seed, const Attributes& values)
      : samples_(samples), draws_(integer_in(values, "draws", 0, Index{1} << 62, "[sampler choice]")), seed_(seed) {
    if (draws_ == 0 || samples == 0) draws_ = samples;
  }
  Index size() const override { return draws_; }
  void take(Index epoch, Index first, Index step, std::span<Index> samples) const override {
    const Rng draw(Rng(seed_, stream_of("sampler choice")).bits(static_cast<uint64_t>(epoch)));
    for (Index& sample : samples) {
      sample = static_cast<Index>(draw.below(static_cast<uint64_t>(first), static_cast<uint64_t>(samples_)));
      first += step;
    }
  }

 private:
  Index samples_, draws_;
  uint64_t seed_;
};

}  // namespace
D5_REGISTER(samplers, "choice", ChoiceSampler);
}  // namespace d5
