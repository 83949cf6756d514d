// SPDX-License-Identifier: Apache-2.0
// Where ONNX Runtime computes something else than ONNX says (seen with 1.31 on ONNX's own tests).
#pragma once

#include <optional>
#include <string>

#include "d5/graph/graph.hpp"

namespace d5::onnxruntime {

std::optional<std::string> deviation(const Graph&, const Specs&);  // of the first such node, in words

}  // namespace d5::onnxruntime
