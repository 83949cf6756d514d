// SPDX-License-Identifier: Apache-2.0
#include "d5/graph/summary.hpp"

#include <algorithm>
#include <map>

#include "d5/graph/edit.hpp"

namespace d5 {
namespace {

// By node: bytes of values that are alive while it runs.
double peak(const Graph& graph, const Specs& specs) {
  std::map<std::string, size_t> last;
  for (const GraphInput& input : graph.inputs)
    if (!input.parameter) last[input.name] = 0;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    for (const std::string& output : graph.nodes[n].outputs)
      if (!output.empty()) last[output] = n;
    for (const std::string& value : values_read(graph.nodes[n]))
      if (last.contains(value)) last[value] = n;
  }
  for (const std::string& output : graph.outputs)
    if (last.contains(output)) last[output] = graph.nodes.size();
  const auto bytes = [&](const std::string& value) {
    const auto found = specs.find(value);
    return found == specs.end() || !found->second.present ? 0.0 : found->second.bytes();
  };
  std::vector<std::vector<std::string>> ends(graph.nodes.size() + 1);
  for (const auto& [value, n] : last) ends[n].push_back(value);
  double alive = 0, most = 0;
  for (const GraphInput& input : graph.inputs)
    if (!input.parameter) alive += bytes(input.name);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    for (const std::string& output : graph.nodes[n].outputs) alive += bytes(output);
    most = std::max(most, alive);
    for (const std::string& value : ends[n]) alive -= bytes(value);
  }
  return most;
}

}  // namespace

NetworkSummary summarise(const Graph& graph) {
  NetworkSummary summary;
  const PartialSpecs some = infer_some_specs(graph);
  if (some.failed) summary.unknown = fmt::format("{}: {}", describe(graph, *some.failed), some.reason);
  std::map<std::string, double> weights;  // elements, until somebody reads them
  const auto add_weight = [&](const std::string& name, Index elements, double bytes) {
    weights[name] = static_cast<double>(elements);
    summary.parameters += static_cast<double>(elements);
    summary.parameter_bytes += bytes;
  };
  for (const GraphInput& input : graph.inputs)
    if (input.parameter) add_weight(input.name, input.spec.elements(), input.spec.bytes());
  for (const auto& [name, tensor] : graph.constants) {
    if (is_float(tensor.dtype()))
      add_weight(name, tensor.elements(), static_cast<double>(tensor.bytes()));
    else
      summary.constant_bytes += static_cast<double>(tensor.bytes());
  }
  for (const Node& node : graph.nodes) {
    LayerSummary layer{.name = node.name, .op = node.op};
    for (const std::string& value : values_read(node))
      if (const auto found = weights.find(value); found != weights.end()) {
        layer.parameters += found->second;
        weights.erase(found);
      }
    for (const std::string& output : node.outputs) {
      if (output.empty()) continue;
      const auto found = some.specs.find(output);
      layer.outputs.push_back(found == some.specs.end() ? "?" : to_string(found->second));
      summary.activation_bytes += found == some.specs.end() ? 0 : found->second.bytes();
    }
    try {
      const auto op = make_operator(node);
      const std::vector<TensorSpec> in = specs_of(some.specs, node.inputs);
      op->infer(in);  // refuses shapes that do not fit, of which there is no cost
      const Cost cost = op->cost(in, Pass::forward);
      layer.flops = cost.flops;
      layer.bytes = cost.bytes;
    } catch (const Error&) {  // shapes that are not known or do not fit
    }
    summary.flops += layer.flops;
    summary.bytes += layer.bytes;
    summary.layers.push_back(std::move(layer));
  }
  summary.peak_bytes = peak(graph, some.specs);
  return summary;
}

}  // namespace d5
