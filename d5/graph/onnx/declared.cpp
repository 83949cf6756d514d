// SPDX-License-Identifier: Apache-2.0
#include "d5/graph/onnx/declared.hpp"

#include <map>

#include "d5/graph/onnx/types.hpp"

namespace d5 {
namespace {

// The rest of a whole model has its graph inside; that of a body is the graph itself.
std::map<std::string, pb::ValueInfo> output_infos(const Graph& graph) {
  pb::Model model;
  pb::Graph body;
  std::map<std::string, pb::ValueInfo> infos;
  pb::Graph* found = nullptr;
  if (model.ParseFromString(graph.file_rest) && model.has_graph())
    found = model.mutable_graph();
  else if (body.ParseFromString(graph.file_rest))
    found = &body;
  if (found)
    for (pb::ValueInfo& info : *found->mutable_output()) infos.try_emplace(info.name(), std::move(info));
  return infos;
}

GraphInput declared(const Graph& graph, size_t i) {
  const auto infos = output_infos(graph);
  const auto info = i < graph.outputs.size() ? infos.find(graph.outputs[i]) : infos.end();
  return info == infos.end() ? GraphInput{.kind = ValueKind::other} : input_from(info->second);
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

std::vector<GraphInput> declared_outputs(const Graph& graph) {
  const auto infos = output_infos(graph);
  std::vector<GraphInput> outputs;
  for (const std::string& name : graph.outputs) {
    GraphInput output{.kind = ValueKind::other};
    if (const auto info = infos.find(name); info != infos.end()) try {
        output = input_from(info->second);
      } catch (const Error&) {  // a type that is not known here
      }
    output.name = name;
    outputs.push_back(std::move(output));
  }
  return outputs;
}

ValueKind declared_kind(const Graph& graph, size_t output) { return declared(graph, output).kind; }

}  // namespace d5
