// SPDX-License-Identifier: Apache-2.0
// Batches of samples of like length, so that little is padded: every sample once, shuffled within its bucket; a bucket
// is cut into whole batches, and these come in a random order. What is left over of the buckets comes last, by length.
#include <algorithm>
#include <numeric>

#include "d5/datasets/permutation.hpp"
#include "d5/datasets/sampler.hpp"
#include "d5/datasets/values.hpp"

namespace d5 {
namespace {

class BucketSampler final : public Sampler {
 public:
  static constexpr const char* about = "every sample once, in shuffled batches of samples of similar length";
  static std::vector<DataOption> options() {
    return {{"batch", "samples that come together", int64_t{32}},
            {"buckets", "of equally many samples", int64_t{10}},
            {"lengths", "one for each sample", std::vector<int64_t>{}}};
  }

  BucketSampler(Index samples, uint64_t seed, const Attributes& values)
      : seed_(seed), batch_(integer_in(values, "batch", 1, Index{1} << 31, place)) {
    const std::vector<int64_t> lengths = values.integers("lengths");
    if (static_cast<Index>(lengths.size()) != samples)
      throw UsageError("{} {} lengths for {} samples", place, lengths.size(), samples);
    by_length_.resize(lengths.size());
    std::iota(by_length_.begin(), by_length_.end(), 0);
    std::ranges::stable_sort(by_length_, {}, [&](Index i) { return lengths[static_cast<size_t>(i)]; });
    const Index buckets =
        std::min(integer_in(values, "buckets", 1, Index{1} << 31, place), std::max<Index>(samples, 1));
    Index left_over = 0;
    for (Index b = 0; b < buckets; ++b) {
      const Index first = samples * b / buckets, last = samples * (b + 1) / buckets;
      buckets_.push_back({first, last - first, batches_, left_over});
      batches_ += (last - first) / batch_;
      left_over += (last - first) % batch_;
    }
  }
  Index size() const override { return static_cast<Index>(by_length_.size()); }
  void take(Index epoch, Index first, Index step, std::span<Index> samples) const override {
    const Rng keys(Rng(seed_, stream_of("sampler bucket")).bits(static_cast<uint64_t>(epoch)));
    const Permutation batches(batches_, keys);
    for (Index& sample : samples) {
      sample = at(keys, batches, first);
      first += step;
    }
  }

 private:
  static constexpr const char* place = "[sampler bucket]";
  struct Bucket {
    Index first, count;              // in by_length_
    Index first_batch, first_extra;  // whole batches and left-over samples of the buckets before it
  };

  Index at(const Rng& keys, const Permutation& batches, Index position) const {
    const bool whole = position < batches_ * batch_;
    const Index number = whole ? batches(position / batch_) : position - batches_ * batch_;
    const auto after =
        std::ranges::upper_bound(buckets_, number, {}, whole ? &Bucket::first_batch : &Bucket::first_extra);
    const auto bucket = static_cast<size_t>(after - buckets_.begin()) - 1;
    const Bucket& b = buckets_[bucket];
    const Index within = whole ? (number - b.first_batch) * batch_ + position % batch_
                               : b.count / batch_ * batch_ + number - b.first_extra;
    const Permutation order(b.count, keys, (bucket + 1) * Permutation::rounds);
    return by_length_[static_cast<size_t>(b.first + order(within))];
  }

  uint64_t seed_;
  Index batch_, batches_ = 0;
  std::vector<Index> by_length_;
  std::vector<Bucket> buckets_;
};

}  // namespace
D5_REGISTER(samplers, "bucket", BucketSampler);
}  // namespace d5
