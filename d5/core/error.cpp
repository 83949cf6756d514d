// SPDX-License-Identifier: Apache-2.0
#include "d5/core/error.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <numeric>
#include <vector>

namespace d5 {
namespace {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool same =
          std::tolower(static_cast<unsigned char>(a[i - 1])) == std::tolower(static_cast<unsigned char>(b[j - 1]));
      const size_t next = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (same ? 0 : 1)});
      diagonal = row[j];
      row[j] = next;
    }
  }
  return row.back();
}

}  // namespace

std::string nearest_name(std::string_view wrong, std::span<const std::string> legal) {
  std::string best;
  size_t best_distance = std::max<size_t>(2, wrong.size() / 3) + 1;
  for (const std::string& name : legal) {
    const size_t distance = edit_distance(wrong, name);
    if (distance < best_distance) {
      best = name;
      best_distance = distance;
    }
  }
  return best;
}

void fail_unknown(std::string_view place, std::string_view what, std::string_view wrong,
                  std::span<const std::string> legal) {
  const std::string near = nearest_name(wrong, legal);
  throw UsageError("{} unknown {} '{}'{} Legal: {}", place, what, wrong,
                   near.empty() ? "." : fmt::format("; did you mean '{}'?", near), fmt::join(legal, ", "));
}

}  // namespace d5
