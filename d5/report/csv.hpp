// SPDX-License-Identifier: Apache-2.0
// Records as CSV: one row a record. Columns: kind, the case fields, status, reason, then for every metric NAME_median,
// NAME_low, NAME_high (95 % interval) and NAME_unit, the bound, and where it came from. Quoted as in RFC 4180, lines
// end with a newline alone. What does not exist is empty.
#pragma once

#include <span>
#include <string>

#include "d5/report/record.hpp"

namespace d5 {

std::string csv_text(std::span<const Record> records);

}  // namespace d5
