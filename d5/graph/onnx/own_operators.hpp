// SPDX-License-Identifier: Apache-2.0
// Operators that ONNX does not have: losses. A file has them in the domain "d5", with the way of reducing in the name
// ("d5:MeanSquaredErrorSum"), and brings along a function of that name in ONNX's words, so that others can run it.
#pragma once

#include <optional>

#include "d5/graph/graph.hpp"

namespace d5 {

struct OwnOperator {
  Node node;          // as it is written
  Function function;  // no nodes: nobody else can run it
};
std::optional<OwnOperator> own_operator(const Node&);  // empty: ONNX has it

// The inverse: the node as it was before it was written. False: it is none of these.
bool restore_own_operator(Node&);

}  // namespace d5
