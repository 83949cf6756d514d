// SPDX-License-Identifier: Apache-2.0
// A network as a command names it: the one place that knows where networks come from.
#pragma once

#include <map>
#include <string>

#include "d5/graph/graph.hpp"

namespace d5 {

// The path of an ONNX file. In d5's own words, its free sizes bound as `sizes` says ("N=16,sequence=128"), else 1.
Graph open_network(const std::string& name, const std::string& sizes = "");

}  // namespace d5
