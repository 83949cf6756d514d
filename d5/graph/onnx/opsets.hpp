// SPDX-License-Identifier: Apache-2.0
// Which opset and IR version a graph in d5's own words needs.
#pragma once

#include <cstdint>

#include "d5/graph/graph.hpp"

namespace d5 {

inline constexpr int64_t newest_opset = 28;

// The lowest version of ONNX's own domain in which every node means what it means here; at least 18.
int64_t opset_of(const Graph&);
int64_t ir_version_of(int64_t opset);

}  // namespace d5
