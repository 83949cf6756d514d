// SPDX-License-Identifier: Apache-2.0
#include "d5/datasets/values.hpp"

#include <algorithm>

namespace d5 {

int64_t integer_in(const Attributes& values, const std::string& name, int64_t low, int64_t high,
                   std::string_view place) {
  const int64_t value = values.integer(name, low);
  if (value < low || value > high) throw UsageError("{} {} = {}; legal: {} to {}", place, name, value, low, high);
  return value;
}

double real_in(const Attributes& values, const std::string& name, double low, double high, std::string_view place) {
  const double value = values.real(name, low);
  if (!(value >= low && value <= high)) throw UsageError("{} {} = {}; legal: {} to {}", place, name, value, low, high);
  return value;
}

std::string one_of(const Attributes& values, const std::string& name, const std::vector<std::string>& legal,
                   std::string_view place) {
  const std::string value = values.text(name, legal.front());
  if (std::ranges::find(legal, value) == legal.end()) fail_unknown(place, name, value, legal);
  return value;
}

}  // namespace d5
