// SPDX-License-Identifier: Apache-2.0
// Two networks side by side.
#pragma once

#include <string>
#include <vector>

#include "d5/graph/graph.hpp"

namespace d5 {

// One line each: inputs, outputs, nodes (by name), attributes, constants and parameters that only one has or that
// differ; of tensors by how much. Empty: the same.
std::vector<std::string> differences(const Graph& a, const Graph& b);

}  // namespace d5
