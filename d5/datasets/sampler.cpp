// SPDX-License-Identifier: Apache-2.0
#include "d5/datasets/sampler.hpp"

#include "d5/datasets/classes.hpp"
#include "d5/datasets/values.hpp"

namespace d5 {
namespace {

class Partitioned final : public Sampler {
 public:
  Partitioned(std::shared_ptr<const Sampler> all, int rank, int ranks)
      : all_(std::move(all)), rank_(rank), ranks_(ranks) {}
  Index size() const override { return std::max<Index>(0, (all_->size() - rank_ + ranks_ - 1) / ranks_); }
  void take(Index epoch, Index first, Index step, std::span<Index> samples) const override {
    all_->take(epoch, rank_ + first * ranks_, step * ranks_, samples);
  }

 private:
  std::shared_ptr<const Sampler> all_;
  Index rank_, ranks_;
};

}  // namespace

std::unique_ptr<Sampler> make_sampler(const std::string& name, Index samples, uint64_t seed, const Attributes& values) {
  const samplers::Entry& entry = registered<samplers>(name);
  if (samples < 0) throw UsageError("[sampler] {}: {} samples; their number is at least 0", name, samples);
  return entry.make(samples, seed, complete_options(values, entry.options, "[sampler " + name + "]"));
}

std::unique_ptr<Sampler> sampler_of(const std::string& name, const Dataset& data, uint64_t seed) {
  Attributes values;
  for (const DataOption& option : registered<samplers>(name).options) {
    if (option.name == "weights") values.set("weights", balancing_weights(data));
    if (option.name == "lengths")
      throw UsageError("[sampler {}] wants a length for each sample, which only a program can give", name);
  }
  return make_sampler(name, data.size(), seed, values);
}

std::unique_ptr<Sampler> partitioned(std::shared_ptr<const Sampler> all, int rank, int ranks) {
  if (ranks < 1 || rank < 0 || rank >= ranks)
    throw UsageError("[sampler] rank {} of {}; legal: 0 to ranks - 1, of at least 1", rank, ranks);
  return std::make_unique<Partitioned>(std::move(all), rank, ranks);
}

}  // namespace d5
