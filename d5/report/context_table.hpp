// SPDX-License-Identifier: Apache-2.0
// What the records of `d5 net --context` say (details.context), for people: the most expensive operators of a step in
// the network, alone hot and alone cold, then all others, what is outside of operators, and the whole, which is their
// sum.
#pragma once

#include <span>
#include <string>

#include "d5/report/record.hpp"

namespace d5 {

std::string context_text(std::span<const Record> records, bool colour = false);

}  // namespace d5
