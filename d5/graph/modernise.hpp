// SPDX-License-Identifier: Apache-2.0
// From the words of any opset (7 and later; most of 1 to 6, too) to d5's own, which mean what they mean in the newest
// one: attributes that became inputs, operators that were renamed, meanings that changed. Functions that the file
// brings are put in place of their calls. The rules are tables, one file per theme, in graph/modern/.
#pragma once

#include <optional>
#include <string>

#include "d5/graph/graph.hpp"

namespace d5 {

// Nodes are in an order in which they can run and have names of their own; there are no functions and no opset of
// ONNX's own domain. Error names the node: a cycle, a value that nobody makes, a form of an operator that is not
// supported.
Graph modernise(const Graph&);

// The reason where a graph as it was read uses an operator that neither d5 nor a rule nor the file's functions know.
std::optional<std::string> unknown_operator_as_read(const Graph&);

}  // namespace d5
