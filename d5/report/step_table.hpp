// SPDX-License-Identifier: Apache-2.0
// The second table of networks: quantiles of the time of one step, memory and energy, one line for every case of the
// first. Inner part of console.cpp.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "d5/report/record.hpp"

namespace d5 {

bool is_of_step_table(const std::string& metric);

// `columns`: the fields that name a case. `mark` makes footnotes of texts: why something is n/a. Empty where no record
// has such metrics.
std::string step_table(std::span<const Record* const> records, const std::vector<std::string>& columns,
                       const std::function<std::string(const std::vector<std::string>&)>& mark, bool colour);

}  // namespace d5
