// SPDX-License-Identifier: Apache-2.0
#include "d5/training/search.hpp"

#include <algorithm>

namespace d5 {

std::unique_ptr<SearchMethod> make_search(std::string_view method, SearchSettings settings) {
  const auto& entry = registered<search_methods>(method);
  std::vector<std::string> legal;
  for (const Parameter& parameter : entry.parameters) legal.push_back(parameter.name);
  settings.values.check_names(legal, fmt::format("[search] {}", method));
  for (const Parameter& parameter : entry.parameters)
    if (!settings.values.has(parameter.name)) settings.values.set(parameter.name, parameter.otherwise);
  if (settings.space.empty()) throw UsageError("[search] there is nothing to search: no field has a range of values");
  if (settings.trials < 0) throw UsageError("[search] trials is {}; 1 and more are legal", settings.trials);
  return entry.make(settings);
}

Point random_point(const std::vector<Dimension>& space, const Rng& rng, uint64_t index) {
  Point point(space.size());
  for (size_t d = 0; d < space.size(); ++d) {
    const double number = rng.uniform(index * space.size() + d);
    point[d] = space[d].choices ? coordinate_of(space[d], choice_of(space[d], number)) : number;
  }
  return point;
}

Index choice_of(const Dimension& dimension, double coordinate) {
  const auto choice = static_cast<Index>(coordinate * static_cast<double>(dimension.choices));
  return std::clamp<Index>(choice, 0, dimension.choices - 1);
}

double coordinate_of(const Dimension& dimension, Index choice) {
  return (static_cast<double>(choice) + 0.5) / static_cast<double>(dimension.choices);
}

}  // namespace d5
