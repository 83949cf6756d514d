// SPDX-License-Identifier: Apache-2.0
#include "d5/training/stopping.hpp"

#include <algorithm>

namespace d5 {

bool StopRules::reached(double quality) const {
  return target != 0 && (larger_is_better ? quality >= target : quality <= target);
}

std::string StopRules::after_epoch(const std::vector<double>& qualities) const {
  if (!qualities.empty() && reached(qualities.back())) return "target";
  if (static_cast<Index>(qualities.size()) >= epochs) return "epochs";
  if (plateau > 0 && !qualities.empty()) {
    const auto best = larger_is_better ? std::ranges::max_element(qualities) : std::ranges::min_element(qualities);
    if (qualities.end() - best > plateau) return "plateau";
  }
  return {};
}

}  // namespace d5
