// SPDX-License-Identifier: Apache-2.0
// What a worker in another language learns of a case before it has any values (docs/protocol.md).
#pragma once

#include <optional>

#include "d5/backends/backend.hpp"
#include "d5/bench/session.hpp"

namespace d5 {

// One operator, or a network of several. Nodes of a network whose results are known before the run (shapes) are left
// out; their results are given as values.
Json describe_foreign_case(const std::string& backend, const Graph&, const CompileOptions&);

// What no description can say: inner graphs. Empty: all of it can be said.
std::optional<std::string> why_not_described(const Graph&);

}  // namespace d5
