// SPDX-License-Identifier: Apache-2.0
// A search for people: every trial, the best one, what the search cost; for searches side by side a line for each.
#pragma once

#include <span>
#include <string>

#include "d5/report/record.hpp"

namespace d5 {

std::string search_text(std::span<const Record> records, bool colour);  // those with details["search"]

}  // namespace d5
