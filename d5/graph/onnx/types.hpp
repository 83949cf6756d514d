// SPDX-License-Identifier: Apache-2.0
// Types of values in ONNX messages, and what a graph keeps of them.
#pragma once

#include <string>

#include "d5/graph/graph.hpp"
#include "d5/graph/onnx/messages.hpp"

namespace d5 {

// A size with a name is a symbol; one that is not given at all gets the name "INPUT.AXIS". Both are 1 until somebody
// binds them (graph/sizes.hpp). Error on a negative size.
GraphInput input_from(const pb::ValueInfo&);

// The inverse for tensors. A message that means the same already stays as it is. True: it was changed.
bool put_input(pb::ValueInfo&, const GraphInput&);
void put_type(pb::ValueInfo&, const TensorSpec&, const std::vector<std::string>& symbols);

}  // namespace d5
