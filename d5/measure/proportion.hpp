// SPDX-License-Identifier: Apache-2.0
// An accuracy is a share of a finite set: k right of n. Its interval is Wilson's (1927), which stays inside 0 .. 1 and
// is honest near the ends, where accuracies are.
#pragma once

#include <cstdint>

#include "d5/measure/quantile.hpp"

namespace d5 {

// centre = (p + z^2 / 2n) / (1 + z^2 / n),   half width = z / (1 + z^2 / n) sqrt(p (1 - p) / n + z^2 / 4n^2)
Interval wilson_interval(int64_t right, int64_t of, double confidence = 0.95);

}  // namespace d5
