// SPDX-License-Identifier: Apache-2.0
// Records of kind "comm" as a table like nccl-tests': one block for each collective, type and number of ranks.
#pragma once

#include <span>
#include <string>

#include "d5/report/record.hpp"

namespace d5 {

std::string comm_table(std::span<const Record> records, bool colour);

}  // namespace d5
