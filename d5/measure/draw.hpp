// SPDX-License-Identifier: Apache-2.0
// Random choices that are the same with every standard library (the library's own distributions are not).
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace d5 {

// Uniform in 0 .. count-1, without the bias of a plain remainder.
inline size_t draw_below(std::mt19937_64& rng, size_t count) {
  const uint64_t limit = UINT64_MAX - UINT64_MAX % count;
  uint64_t bits = rng();
  while (bits >= limit) bits = rng();
  return bits % count;
}

// All orders equally likely (Fisher and Yates).
template <class T>
void draw_order(std::mt19937_64& rng, std::vector<T>& items) {
  for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[draw_below(rng, i)]);
}

}  // namespace d5
