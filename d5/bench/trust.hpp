// SPDX-License-Identifier: Apache-2.0
// Is the oracle itself to be believed? Those of built-in operators are tested against numbers from outside. One that a
// plugin brings is not: its gradient is checked by central differences, and its forward has no check at all until
// something else computes the same.
#pragma once

#include <string>

#include "d5/bench/problem.hpp"

namespace d5 {

struct Trust {
  std::string status = "passed";  // passed | mistrusted | failed
  std::string reason;
  std::string warning = {};  // what may be meant, and may not
};
// `kernels` are those that computed the problem and agreed with its expected values.
Trust trust_in_oracle(const std::string& op, const OperatorCase&, const Problem&, const Facts& kernels, uint64_t seed);

}  // namespace d5
