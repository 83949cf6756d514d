// SPDX-License-Identifier: Apache-2.0
#include "d5/graph/onnx/declared.hpp"

#include "d5/graph/onnx/types.hpp"

namespace d5 {
namespace {

// The rest of a whole model has its graph inside; that of a body is the graph itself.
GraphInput declared(const Graph& graph, size_t i) {
  pb::Model model;
  pb::Graph body;
  const pb::Graph* found = nullptr;
  if (model.ParseFromString(graph.file_rest) && model.has_graph())
    found = &model.graph();
  else if (body.ParseFromString(graph.file_rest))
    found = &body;
  if (found && i < graph.outputs.size())
    for (const pb::ValueInfo& info : found->output())
      if (info.name() == graph.outputs[i]) return input_from(info);
  return {.kind = ValueKind::other};
}

}  // namespace

TensorSpec declared_output(const Graph& graph, size_t i) {
  const GraphInput found = declared(graph, i);
  if (found.kind != ValueKind::tensor) throw Error("the type of output {} of '{}' is not declared", i, graph.name);
  return found.spec;
}

std::vector<std::string> declared_inputs(const Graph& graph) {
  std::vector<std::string> names;
  if (pb::Model model; model.ParseFromString(graph.file_rest))
    for (const pb::ValueInfo& info : model.graph().input()) names.push_back(info.name());
  return names;
}

ValueKind declared_kind(const Graph& graph, size_t output) { return declared(graph, output).kind; }

}  // namespace d5
