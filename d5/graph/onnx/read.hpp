// SPDX-License-Identifier: Apache-2.0
// ONNX files as graphs. The graph is what the file says: operators, attributes and opset versions as they are there
// (graph/modernise.hpp turns them into d5's own words), initialisers as Graph::constants whether they are inputs or
// not, sizes with names as symbols. What a graph has no place for is kept beside it, so that write_onnx loses nothing.
//
// Errors name the file, the node and the reason. Memory is bounded by the sizes of the files.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "d5/graph/graph.hpp"

namespace d5 {

Graph read_onnx(const std::filesystem::path&);

// The same of bytes in memory. `name` is for messages; tensors with external data are looked for in `folder`.
Graph parse_onnx(std::string_view bytes, const std::string& name, const std::filesystem::path& folder = {});

}  // namespace d5
