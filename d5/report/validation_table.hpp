// SPDX-License-Identifier: Apache-2.0
// What the records of `d5 net --validate` say, for people: a line for every executor, and of each the values that are
// nearest to their tolerance, or beyond it. The records hold them all (details.nodes).
#pragma once

#include <span>
#include <string>

#include "d5/report/record.hpp"

namespace d5 {

struct ValidationTableOptions {
  bool colour = false;
  size_t top = 10;  // values shown for each executor; the first that deviates always is
};
std::string validation_text(std::span<const Record> records, const ValidationTableOptions& = {});

}  // namespace d5
