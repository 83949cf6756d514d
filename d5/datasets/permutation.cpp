// SPDX-License-Identifier: Apache-2.0
#include "d5/datasets/permutation.hpp"

#include <cmath>

#include "d5/core/error.hpp"

namespace d5 {
namespace {

// A number below `bound` that looks random: a multiplicative hash, folded and multiplied once more (the finalizer of
// Murmur3), scaled to the range.
inline uint64_t scrambled(uint64_t value, uint64_t key, uint64_t bound) {
  uint64_t h = (value ^ key) * 0xff51afd7ed558ccd;
  h ^= h >> 32;
  h = (h + key) * 0xc4ceb9fe1a85ec53;
  h ^= h >> 29;
  return static_cast<uint64_t>((static_cast<unsigned __int128>(h * 0x9e3779b97f4a7c15) * bound) >> 64);
}

}  // namespace

Permutation::Permutation(Index n, const Rng& keys, uint64_t first_key) : n_(static_cast<uint64_t>(n)) {
  if (n < 0) throw Error("[permutation] of {} elements; their number is at least 0", n);
  columns_ = std::max<uint64_t>(1, static_cast<uint64_t>(std::sqrt(static_cast<double>(n))));
  rows_ = (n_ + columns_ - 1) / columns_;
  for (size_t r = 0; r < rounds; ++r) keys_[r] = keys.bits(first_key + r);
}

Index Permutation::operator()(Index position) const {
  auto x = static_cast<uint64_t>(position);
  if (x >= n_) throw Error("[permutation] position {} of a permutation of {} elements", position, n_);
  do {
    uint64_t left = x / columns_, right = x % columns_;
    for (size_t r = 0; r < rounds; r += 2) {
      left += scrambled(right, keys_[r], rows_);
      left -= left >= rows_ ? rows_ : 0;
      right += scrambled(left, keys_[r + 1], columns_);
      right -= right >= columns_ ? columns_ : 0;
    }
    x = left * columns_ + right;
  } while (x >= n_);
  return static_cast<Index>(x);
}

}  // namespace d5
