// SPDX-License-Identifier: Apache-2.0
// How far a result is from what was expected. Two NaN, and two infinities of one sign, agree. Any other pair with a
// value that is not finite counts in `not_finite`, is the worst, and makes every norm infinite.
#pragma once

#include <cstdint>
#include <span>

namespace d5 {

struct ErrorNorms {
  double l1 = 0;             // sum |d|
  double l2 = 0;             // sqrt(sum d^2)
  double linf = 0;           // max |d|
  double linf_relative = 0;  // max |d| / max |expected|; 0 where nothing differs, infinite against all zeros
  int64_t compared = 0;
  int64_t worst_index = -1;  // of the first largest |d|; -1 where nothing was compared
  double worst_expected = 0, worst_actual = 0;
  int64_t not_finite = 0;
};
ErrorNorms error_norms(std::span<const double> expected, std::span<const double> actual);  // Error: sizes differ

}  // namespace d5
