// SPDX-License-Identifier: Apache-2.0
#include "d5/graph/graph.hpp"

#include <algorithm>
#include <set>

#include "d5/graph/evaluate.hpp"
#include "d5/operators/known.hpp"

namespace d5 {

std::unique_ptr<Operator> make_operator(const Node& node) {
  const OperatorEntry* entry = find_registered<operators>(node.op);
  if (!entry && find_value_function(node.op))
    throw CannotRun("{} has values that are no tensors, or a body; reference alone runs it", node.op);
  if (!entry) throw CannotRun("operator {} is not supported", node.op);
  return entry->make(node.attributes);
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

bool is_random(const std::string& op) {
  static const std::set<std::string> random{"Bernoulli",        "Dropout",       "Multinomial",      "RandomNormal",
                                            "RandomNormalLike", "RandomUniform", "RandomUniformLike"};
  return random.contains(op);
}

std::vector<TensorSpec> infer_node(const Node& node, const Operator& op, const std::vector<TensorSpec>& in) {
  auto made = [&] {
    try {
      return op.infer(in);
    } catch (const std::bad_alloc&) {
      throw Error("its sizes ask for more memory than there is");
    }
  }();
  const bool known = std::ranges::all_of(made, [](const TensorSpec& spec) { return spec.known != nullptr; });
  return known || in.empty() || is_random(node.op) ? made : with_known(op, in, std::move(made));
}

PartialSpecs infer_some_specs(const Graph& graph) {
  PartialSpecs some;
  for (const GraphInput& input : graph.inputs)
    if (input.kind == ValueKind::tensor && !(input.symbols.size() == 1 && input.symbols[0] == "*"))
      some.specs[input.name] = input.spec;
  for (const auto& [name, tensor] : graph.constants) some.specs[name] = known_spec(tensor);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    const auto fail = [&](const Error& error, bool lacks_value) {
      if (some.failed) return;
      some.failed = n;
      some.reason = error.what();
      some.lacks_value = lacks_value;
    };
    try {
      const auto made = infer_node(node, *make_operator(node), specs_of(some.specs, node.inputs));
      for (size_t i = 0; i < node.outputs.size() && i < made.size(); ++i)
        if (!node.outputs[i].empty()) some.specs[node.outputs[i]] = made[i];
    } catch (const UnknownValue& error) {
      fail(error, true);
    } catch (const Error& error) {
      fail(error, false);
    }
  }
  return some;
}

Specs infer_specs(const Graph& graph) {
  Specs specs;
  for (const GraphInput& input : graph.inputs) {
    if (input.kind != ValueKind::tensor)
      throw Error("[graph] {}: input '{}' is no tensor; it has no shape before the run", graph.name, input.name);
    specs[input.name] = input.spec;
  }
  for (const auto& [name, tensor] : graph.constants)
    specs[name] = {tensor.dtype(), tensor.shape(), std::make_shared<const Tensor>(tensor)};
  for (const Node& node : graph.nodes) try {
      const auto made = infer_node(node, *make_operator(node), specs_of(specs, node.inputs));
      for (size_t i = 0; i < node.outputs.size() && i < made.size(); ++i) specs[node.outputs[i]] = made[i];
    } catch (const UnknownValue& error) {
      throw UnknownValue("[graph] {}: node '{}': {}", graph.name, node.name, error.what());
    } catch (const CannotRun& error) {
      throw CannotRun("[graph] {}: node '{}': {}", graph.name, node.name, error.what());
    } catch (const UsageError& error) {
      throw UsageError("[graph] {}: node '{}': {}", graph.name, node.name, error.what());
    } catch (const Error& error) {
      throw error.within(fmt::format("[graph] {}: node '{}'", graph.name, node.name));
    }
  return specs;
}

std::string placed(const std::string& place, const Error& error) {
  const std::string_view what = error.what();
  return what.starts_with("[graph]") ? std::string(what) : fmt::format("{}: {}", place, what);
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
