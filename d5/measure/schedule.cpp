// SPDX-License-Identifier: Apache-2.0
#include "d5/measure/schedule.hpp"

#include <algorithm>
#include <numeric>
#include <random>

#include "d5/core/error.hpp"
#include "d5/measure/draw.hpp"

namespace d5 {

std::vector<std::vector<size_t>> latin_rounds(size_t children, size_t rounds, uint64_t seed) {
  if (children == 0) throw Error("[schedule] no children; legal: 1 or more");
  std::mt19937_64 rng(seed);
  std::vector<size_t> names(children), shifts(children);
  std::iota(names.begin(), names.end(), size_t{0});
  std::iota(shifts.begin(), shifts.end(), size_t{0});

  std::vector<std::vector<size_t>> order;
  while (order.size() < rounds) {
    // A new square: the children in random order, its rows (all rotations) in random order. Of two children this is
    // ABBA or BAAB.
    draw_order(rng, names);
    draw_order(rng, shifts);
    for (size_t row = 0; row < children && order.size() < rounds; ++row) {
      order.push_back(names);
      std::rotate(order.back().begin(), order.back().begin() + static_cast<std::ptrdiff_t>(shifts[row]),
                  order.back().end());
    }
  }
  return order;
}

}  // namespace d5
