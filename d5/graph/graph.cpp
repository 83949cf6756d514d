// SPDX-License-Identifier: Apache-2.0
#include "d5/graph/graph.hpp"

#include <algorithm>

namespace d5 {

std::unique_ptr<Operator> make_operator(const Node& node) {
  return registered<operators>(node.op).make(node.attributes);
}

std::vector<TensorSpec> specs_of(const Specs& specs, const std::vector<std::string>& names) {
  std::vector<TensorSpec> found;
  for (const std::string& name : names) {
    if (name.empty()) {
      found.push_back(TensorSpec::absent());
    } else if (const auto spec = specs.find(name); spec != specs.end()) {
      found.push_back(spec->second);
    } else {
      throw Error("value '{}' is used but nobody makes it", name);
    }
  }
  return found;
}

Specs infer_specs(const Graph& graph) {
  Specs specs;
  for (const GraphInput& input : graph.inputs) specs[input.name] = input.spec;
  for (const auto& [name, tensor] : graph.constants)
    specs[name] = {tensor.dtype(), tensor.shape(), std::make_shared<const Tensor>(tensor)};
  for (const Node& node : graph.nodes) try {
      const auto made = make_operator(node)->infer(specs_of(specs, node.inputs));
      for (size_t i = 0; i < node.outputs.size() && i < made.size(); ++i) specs[node.outputs[i]] = made[i];
    } catch (const UsageError& error) {
      throw UsageError("[graph] {}: node '{}': {}", graph.name, node.name, error.what());
    } catch (const Error& error) {
      throw error.within(fmt::format("[graph] {}: node '{}'", graph.name, node.name));
    }
  return specs;
}

Graph single_node_graph(const std::string& op, const OperatorCase& one) {
  Graph graph{.name = op};
  Node node{.op = op, .name = op, .attributes = one.attributes};
  for (size_t i = 0; i < one.inputs.size(); ++i) {
    const std::string name = fmt::format("x{}", i);
    node.inputs.push_back(one.inputs[i].spec.present ? name : "");
    if (one.inputs[i].spec.present) {
      const OperatorInput& input = one.inputs[i];
      graph.inputs.push_back({name, input.spec, input.parameter, input.differentiable});
    }
  }
  const size_t outputs = std::min(one.outputs, make_operator(node)->infer(one.specs()).size());
  for (size_t i = 0; i < outputs; ++i) {
    node.outputs.push_back(fmt::format("y{}", i));
    graph.outputs.push_back(node.outputs.back());
  }
  graph.nodes.push_back(std::move(node));
  return graph;
}

}  // namespace d5
