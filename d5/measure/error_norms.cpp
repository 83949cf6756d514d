// SPDX-License-Identifier: Apache-2.0
#include "d5/measure/error_norms.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "d5/core/error.hpp"

namespace d5 {

ErrorNorms error_norms(std::span<const double> expected, std::span<const double> actual) {
  if (expected.size() != actual.size())
    throw Error("[error norms] {} values against {} expected", actual.size(), expected.size());
  constexpr double infinity = std::numeric_limits<double>::infinity();
  ErrorNorms norms{.compared = static_cast<int64_t>(expected.size())};
  double squares = 0, largest = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double e = expected[i], a = actual[i];
    double d = std::abs(a - e);
    if (!std::isfinite(e) || !std::isfinite(a)) {
      const bool agree = e == a || (std::isnan(e) && std::isnan(a));
      norms.not_finite += !agree;
      d = agree ? 0 : infinity;
    } else {
      largest = std::max(largest, std::abs(e));
    }
    norms.l1 += d;
    squares += d * d;
    if (norms.worst_index < 0 || d > norms.linf) {
      norms.linf = d;
      norms.worst_index = static_cast<int64_t>(i);
      norms.worst_expected = e;
      norms.worst_actual = a;
    }
  }
  norms.l2 = std::sqrt(squares);
  norms.linf_relative = norms.linf == 0 ? 0 : largest == 0 ? infinity : norms.linf / largest;
  return norms;
}

}  // namespace d5
