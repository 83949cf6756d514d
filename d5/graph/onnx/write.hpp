// SPDX-License-Identifier: Apache-2.0
// Graphs as ONNX files. A graph that was read and not changed gives the same messages again: names, order, comments and
// whatever nobody here understands. One in d5's own words (no opsets) is written in the lowest opset that has all of
// them; operators that ONNX lacks come along as functions. Parameters with a value become initialisers.
#pragma once

#include <filesystem>
#include <string>

#include "d5/graph/graph.hpp"

namespace d5 {

// Tensors that were external data are so again, in FILE.data beside it; so are large ones where the whole would not fit
// into one message (2 GiB). Written to a temporary name and renamed.
void write_onnx(const Graph&, const std::filesystem::path&);

std::string serialise_onnx(const Graph&);  // in one piece; Error above 2 GiB

}  // namespace d5
