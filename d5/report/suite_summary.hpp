// SPDX-License-Identifier: Apache-2.0
// What a suite says as a whole, from the records of its cases (details.suites): for each element type, pass and number
// of threads how many cases passed on each backend, and the total time over the cases that were measured on all.
#pragma once

#include <span>
#include <string>

#include "d5/report/record.hpp"

namespace d5 {

std::string suite_summary(std::span<const Record> records);  // empty where no record belongs to a suite

}  // namespace d5
