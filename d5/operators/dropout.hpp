// SPDX-License-Identifier: Apache-2.0
// Which elements a Dropout keeps. The number of an element depends on the seed, the step, the global number of its
// sample and its place within the sample, not on how samples are spread over batches, slots and ranks; a kernel that
// uses it keeps what the oracle keeps.
#pragma once

#include "d5/core/rng.hpp"
#include "d5/operators/operator.hpp"

namespace d5 {

class DropoutNumbers {
 public:
  DropoutNumbers(int64_t seed, const Position& position)
      : seed_(Rng(static_cast<uint64_t>(seed), stream_of("dropout")).bits(position.step)),
        first_sample_(position.first_sample) {}

  // In [0, 1), 32 bits: element `element` of the sample at index `sample` along axis 0 is kept where this is >= ratio.
  double at(Index sample, Index element) const {
    const uint64_t pair = Rng(seed_, stream(sample)).bits(static_cast<uint64_t>(element) / 2);
    return static_cast<double>(static_cast<uint32_t>(element % 2 ? pair >> 32 : pair)) * 0x1p-32;
  }

  // They are the halves, the lower first, of the numbers of this seed and stream, for kernels that make many at once.
  uint64_t seed() const { return seed_; }
  uint64_t stream(Index sample) const { return first_sample_ + static_cast<uint64_t>(sample); }

 private:
  uint64_t seed_, first_sample_;
};

}  // namespace d5
