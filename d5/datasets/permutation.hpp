// SPDX-License-Identifier: Apache-2.0
// A random order of 0 .. n-1 without a table: element p is computed, so 10^7 samples cost no memory and any position
// can be asked for first. Written as x = left * columns + right, an element goes through rounds
//   left  = (left  + F(right, key)) mod rows,     right = (right + F(left, key)) mod columns,
// each of which can be undone, so the whole is a bijection of rows x columns >= n numbers (Black and Rogaway, 2002); a
// result that is not below n goes through again (cycle walking), which is rare: rows x columns < n + 2 sqrt(n) + 2.
#pragma once

#include <array>
#include <cstdint>

#include "d5/core/rng.hpp"

namespace d5 {

class Permutation {
 public:
  Permutation(Index n, const Rng& keys, uint64_t first_key = 0);  // reads numbers first_key .. first_key + rounds - 1
  Index size() const { return static_cast<Index>(n_); }
  Index operator()(Index position) const;  // 0 <= position < n

  static constexpr size_t rounds = 10;

 private:
  uint64_t n_, rows_, columns_;
  std::array<uint64_t, rounds> keys_;
};

}  // namespace d5
