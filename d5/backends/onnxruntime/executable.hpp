// SPDX-License-Identifier: Apache-2.0
// A graph as one session of ONNX Runtime.
#pragma once

#include <memory>

#include "d5/backends/backend.hpp"

namespace d5::onnxruntime {

// Why the library cannot run the graph, in its own words, or empty.
std::optional<std::string> why_not_graph(const Graph&);
std::unique_ptr<Executable> make_executable(const Graph&, ParameterSet&, const CompileOptions&);
std::string optimization();  // none, basic, extended or all: what D5_ONNXRUNTIME_OPTIMIZATION says

}  // namespace d5::onnxruntime
