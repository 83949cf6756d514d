// SPDX-License-Identifier: Apache-2.0
// What the file says of the inputs and outputs of a graph.
#pragma once

#include "d5/graph/graph.hpp"

namespace d5 {

// Element type and shape of output i as the file declares them, free sizes as 1; of a body, too. Error where it says
// nothing, or the output is no tensor.
TensorSpec declared_output(const Graph&, size_t i);
// Names of all inputs, those that have an initialiser included.
std::vector<std::string> declared_inputs(const Graph&);
// Types of all outputs, `other` where it says nothing that is known here.
std::vector<GraphInput> declared_outputs(const Graph&);
// Tensor, sequence or optional; other where the file says nothing.
ValueKind declared_kind(const Graph&, size_t output);

}  // namespace d5
