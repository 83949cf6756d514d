// SPDX-License-Identifier: Apache-2.0
#include "d5/graph/gradients.hpp"

#include <algorithm>

namespace d5 {

bool GradientFlow::has(const std::string& value) const {
  const auto found = values.find(value);
  return found != values.end() && found->second;
}

bool GradientFlow::passes(size_t node) const { return std::ranges::find(by_input[node], true) != by_input[node].end(); }

GradientFlow find_gradients(const Graph& graph, const Specs& specs,
                            const std::function<bool(const GraphInput&)>& wanted) {
  std::map<std::string, bool> behind;  // something wanted lies behind it
  for (const GraphInput& input : graph.inputs)
    behind[input.name] = input.differentiable && is_float(input.spec.dtype) && wanted(input);
  for (const Node& node : graph.nodes) {
    const bool any = std::ranges::any_of(node.inputs, [&](const std::string& name) { return behind[name]; });
    for (const std::string& name : node.outputs)
      if (!name.empty()) behind[name] = any && is_float(specs.at(name).dtype);
  }
  GradientFlow flow;
  for (const std::string& name : graph.outputs) flow.values[name] = behind[name];
  flow.by_input.resize(graph.nodes.size());
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    const Node& node = graph.nodes[n];
    const bool reached = std::ranges::any_of(node.outputs, [&](const std::string& name) { return flow.has(name); });
    for (const std::string& name : node.inputs) {
      const bool wants = reached && !name.empty() && behind[name];
      flow.by_input[n].push_back(wants);
      if (wants) flow.values[name] = true;
    }
  }
  return flow;
}

}  // namespace d5
