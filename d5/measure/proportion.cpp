// SPDX-License-Identifier: Apache-2.0
#include "d5/measure/proportion.hpp"

#include <algorithm>
#include <cmath>

#include "d5/core/error.hpp"
#include "d5/measure/distributions.hpp"

namespace d5 {

Interval wilson_interval(int64_t right, int64_t of, double confidence) {
  if (of < 1 || right < 0 || right > of) throw Error("[wilson] {} of {} is no share", right, of);
  const double n = static_cast<double>(of), p = static_cast<double>(right) / n;
  const double z = normal_quantile(0.5 + 0.5 * confidence), shrink = 1 + z * z / n;
  const double centre = (p + z * z / (2 * n)) / shrink;
  const double half = z / shrink * std::sqrt(p * (1 - p) / n + z * z / (4 * n * n));
  return {std::max(0.0, centre - half), std::min(1.0, centre + half)};
}

}  // namespace d5
