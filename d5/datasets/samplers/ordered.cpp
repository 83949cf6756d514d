// SPDX-License-Identifier: Apache-2.0
// sample(p) = p, every epoch.
#include "d5/datasets/sampler.hpp"

namespace d5 {
namespace {

class OrderedSampler final : public Sampler {
 public:
  static constexpr const char* about = "every sample once, in the order of the data set";
  static std::vector<DataOption> options() { return {}; }

  OrderedSampler(Index samples, uint64_t, const Attributes&) : samples_(samples) {}
  Index size() const override { return samples_; }
  void take(Index, Index first, Index step, std::span<Index> samples) const override {
    for (Index& sample : samples) {
      sample = first;
      first += step;
    }
  }

 private:
  Index samples_;
};

}  // namespace
D5_REGISTER(samplers, "ordered", OrderedSampler);
}  // namespace d5
