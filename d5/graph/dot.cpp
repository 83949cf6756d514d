// SPDX-License-Identifier: Apache-2.0
#include "d5/graph/dot.hpp"

#include <map>

#include "d5/graph/edit.hpp"

namespace d5 {
namespace {

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return result + "\"";
}

}  // namespace

std::string dot_text(const Graph& graph) {
  const Specs specs = infer_some_specs(graph).specs;
  const auto shape = [&](const std::string& value) {
    const auto found = specs.find(value);
    return found == specs.end() ? std::string("?") : to_string(found->second);
  };
  std::string text = fmt::format("digraph {} {{\n  rankdir=TB;\n  node [shape=box, fontname=\"Helvetica\"];\n",
                                 quoted(graph.name.empty() ? "network" : graph.name));
  std::map<std::string, std::string> maker;  // of a value: the drawing's node
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const GraphInput& input = graph.inputs[i];
    if (input.parameter) continue;
    maker[input.name] = fmt::format("input{}", i);
    text += fmt::format("  input{} [label={}, shape=ellipse];\n", i, quoted(input.name));
  }
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    text += fmt::format("  node{} [label={}];\n", n, quoted(node.op + "\n" + node.name));
    for (const std::string& value : values_read(node))
      if (const auto found = maker.find(value); found != maker.end())
        text += fmt::format("  {} -> node{} [label={}];\n", found->second, n, quoted(shape(value)));
    for (const std::string& output : node.outputs)
      if (!output.empty()) maker[output] = fmt::format("node{}", n);
  }
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    text += fmt::format("  output{} [label={}, shape=ellipse];\n", i, quoted(graph.outputs[i]));
    if (const auto found = maker.find(graph.outputs[i]); found != maker.end())
      text += fmt::format("  {} -> output{} [label={}];\n", found->second, i, quoted(shape(graph.outputs[i])));
  }
  return text + "}\n";
}

}  // namespace d5
