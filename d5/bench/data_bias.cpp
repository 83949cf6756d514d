// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/data_bias.hpp"

#include <algorithm>
#include <numeric>

#include "d5/core/error.hpp"
#include "d5/measure/distributions.hpp"

namespace d5 {

ClassBias class_bias(std::vector<Index> counts) {
  const auto samples = static_cast<double>(std::accumulate(counts.begin(), counts.end(), Index{0}));
  if (counts.size() < 2 || samples == 0)
    throw Error("[bias] {} classes, {} samples; legal: at least two classes and one sample", counts.size(), samples);
  ClassBias bias;
  const double expected = samples / static_cast<double>(counts.size());
  for (const Index count : counts) {
    const double off = static_cast<double>(count) - expected;
    bias.chi_square += off * off / expected;
  }
  bias.p = chi_square_tail(bias.chi_square, static_cast<double>(counts.size() - 1));
  bias.largest_share = static_cast<double>(*std::ranges::max_element(counts)) / samples;
  bias.counts = std::move(counts);
  return bias;
}

}  // namespace d5
