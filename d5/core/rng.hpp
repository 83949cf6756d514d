// SPDX-License-Identifier: Apache-2.0
// Counter-based random numbers: Philox4x32-10 (Salmon et al., SC'11). Number i of a stream depends on (seed, stream, i)
// alone, so results do not change with the number of threads or ranks.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "d5/core/tensor.hpp"

namespace d5 {

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

class Rng {
 public:
  explicit Rng(uint64_t seed, uint64_t stream = 0) : seed_(seed), stream_(stream) {}

  uint64_t seed() const { return seed_; }
  uint64_t stream() const { return stream_; }

  // Random access: number `index` of this stream.
  uint64_t bits(uint64_t index) const;
  double uniform(uint64_t index) const;                  // [0, 1), 53 bits
  double normal(uint64_t index) const;                   // Box-Muller; 2 i and 2 i + 1 are made of one pair
  uint64_t below(uint64_t index, uint64_t bound) const;  // 64-bit multiply-shift: its bias is below bound / 2^64

  // Sequential use of the same numbers.
  double next_uniform() { return uniform(position_++); }
  uint64_t next_below(uint64_t bound) { return below(position_++, bound); }

 private:
  uint64_t seed_, stream_, position_ = 0;
};

uint64_t stream_of(std::string_view name);  // a stable stream number for a name (FNV-1a)

// Fills a host tensor of any type but string; element i gets number i of the stream, whatever the number of threads.
// Values are made as doubles (integers as i64) and converted to the tensor's type, so narrow floats may round to
// `high`.
void fill_uniform(const Tensor&, const Rng&, double low, double high);
void fill_normal(const Tensor&, const Rng&, double mean, double deviation);
void fill_integers(const Tensor&, const Rng&, int64_t low, int64_t high);  // inclusive; stored in the tensor's type
void shuffle(std::span<int64_t>, const Rng&);                              // Fisher-Yates

}  // namespace d5
