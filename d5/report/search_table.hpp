// SPDX-License-Identifier: Apache-2.0
// A search for people: every trial, the best one, what the search cost; for searches side by side a line for each.
#pragma once

#include <span>
#include <string>

#include "d5/report/record.hpp"

namespace d5 {

// Of records with details["search"].
std::string search_text(std::span<const Record> records, bool colour);
bool has_best(std::span<const Record> records);  // some training of the whole length succeeded

}  // namespace d5
