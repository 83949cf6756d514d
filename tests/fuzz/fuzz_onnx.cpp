// SPDX-License-Identifier: Apache-2.0
// ONNX files, broken in any way: a graph or an Error. What was read can be written, and reads the same again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "d5/graph/differences.hpp"
#include "d5/graph/dot.hpp"
#include "d5/graph/fold.hpp"
#include "d5/graph/modernise.hpp"
#include "d5/graph/onnx/read.hpp"
#include "d5/graph/onnx/write.hpp"
#include "d5/graph/summary.hpp"

namespace {

// Tensors that are made while shapes are inferred could be large; this is about the files.
constexpr size_t most_bytes = 1 << 16;

bool is_small(const d5::Graph& graph) {
  for (const d5::GraphInput& input : graph.inputs)
    if (input.kind == d5::ValueKind::tensor && input.spec.elements() > 1 << 20) return false;
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const d5::Graph graph = d5::parse_onnx({reinterpret_cast<const char*>(data), size}, "fuzz.onnx", "/nowhere");
    const std::string bytes = d5::serialise_onnx(graph);
    const d5::Graph again = d5::parse_onnx(bytes, "again.onnx", "/nowhere");
    // A type that the file gives an output, and that its node cannot make, is put right when it is written.
    for (const std::string& line : d5::differences(graph, again))
      if (!line.starts_with("output '")) std::abort();
    if (d5::serialise_onnx(again) != bytes) std::abort();
    d5::Graph modern = d5::modernise(graph);
    if (!is_small(modern)) return 0;
    d5::summarise(modern);
    d5::dot_text(modern);
    d5::fold_constants(modern, {.most_bytes = most_bytes});
    d5::serialise_onnx(modern);
  } catch (const d5::Error&) {  // a reason in words is a right answer
  }
  return 0;
}
