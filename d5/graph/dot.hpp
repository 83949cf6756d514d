// SPDX-License-Identifier: Apache-2.0
// A network as a drawing for Graphviz: nodes as boxes, values as arrows with their shapes. Constants are left out.
#pragma once

#include <string>

#include "d5/graph/graph.hpp"

namespace d5 {

std::string dot_text(const Graph&);

}  // namespace d5
