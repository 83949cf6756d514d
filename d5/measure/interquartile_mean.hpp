// SPDX-License-Identifier: Apache-2.0
// The mean of the middle half of samples: disturbed ones do not count, and what it leaves out is known.
#pragma once

#include <algorithm>
#include <vector>

#include "d5/core/error.hpp"

namespace d5 {

inline double interquartile_mean(std::vector<double> values) {
  if (values.empty()) throw Error("[mean] no samples");
  std::ranges::sort(values);
  const size_t outside = values.size() / 4;
  double sum = 0;
  for (size_t i = outside; i < values.size() - outside; ++i) sum += values[i];
  return sum / static_cast<double>(values.size() - 2 * outside);
}

}  // namespace d5
