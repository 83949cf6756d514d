// SPDX-License-Identifier: Apache-2.0
// How trainings scale: records that differ only in the number of ranks (and the seed), against the fewest of them.
//   efficiency = (rate / rate of the base case) / (ranks / ranks of the base case)
#pragma once

#include <span>
#include <string>

#include "d5/report/record.hpp"

namespace d5 {

std::string scaling_text(std::span<const Record> records, bool colour);  // empty: no two numbers of ranks to compare

}  // namespace d5
