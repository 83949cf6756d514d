// SPDX-License-Identifier: Apache-2.0
#include "d5/backends/torch/plan.hpp"

#include <algorithm>
#include <set>

#include "d5/backends/torch/custom.hpp"
#include "d5/backends/torch/library.hpp"
#include "d5/core/origin.hpp"

namespace d5::libtorch {
namespace {

// Of tensors without elements LibTorch's functions for these raise errors, each in words of its own.
std::optional<std::string> why_not_empty(const Setup& setup) {
  static const std::set<std::string_view> refused{"AveragePool",
                                                  "Conv",
                                                  "ConvTranspose",
                                                  "GlobalMaxPool",
                                                  "GroupNormalization",
                                                  "GRU",
                                                  "InstanceNormalization",
                                                  "LRN",
                                                  "LSTM",
                                                  "MaxPool",
                                                  "RNN"};
  if (!refused.contains(setup.node.op)) return {};
  for (const auto* specs : {&setup.inputs, &setup.outputs})
    for (const TensorSpec& spec : *specs)
      if (spec.present && spec.elements() == 0)
        return fmt::format("LibTorch takes no empty tensor of {}", to_string(spec.shape));
  return {};
}

Custom prepare(const Setup& setup) {
  for (const auto* specs : {&setup.inputs, &setup.outputs})
    for (const TensorSpec& spec : *specs)
      if (spec.present && !has_type(spec.dtype)) return {refuse("LibTorch has no operators for {}", name(spec.dtype))};
  const Prepare* found = find_operator(setup.node.op);
  if (setup.options.kernel != "builtin" || !found)
    if (Custom user = kernel_inside_autograd(setup); user.prepared.compute || !user.prepared.why_not.empty())
      return user;
  if (const auto reason = why_not_empty(setup)) return {refuse("{}", *reason)};
  Prepared prepared = found ? (*found)(setup) : refuse("no ATen function stands for it");
  const bool of_user = !found && is_users<operators>(setup.node.op);
  if (!prepared.why_not.empty() && (of_user || setup.options.fallback == Fallback::reference))
    return operator_inside_autograd(setup);
  return {std::move(prepared)};
}

}  // namespace

Plan::Plan(const Graph& graph, const CompileOptions& options, at::Device device, const Position* position) {
  const Specs specs = infer_specs(graph);
  for (const auto& [name, spec] : specs) values[add(name, spec)].asked = options.keeps(name);
  for (const GraphInput& input : graph.inputs) {
    PlannedValue& value = values[number(input.name)];
    value.input = true;
    value.parameter = input.parameter;
    value.differentiable = input.differentiable;
  }
  for (const auto& [name, tensor] : graph.constants) values[number(name)].constant = true;
  for (const std::string& name : graph.outputs) {
    if (!numbers_.contains(name)) throw Error("[graph] {}: output '{}' is made by no node", graph.name, name);
    values[number(name)].output = true;
  }
  for (size_t n = 0; n < graph.nodes.size(); ++n)
    for (const std::string& name : graph.nodes[n].inputs)
      if (!name.empty()) values[number(name)].readers.push_back(n);
  const bool reorders = options.layout == LayoutChoice::fast && !options.time_reorders;
  for (const Node& node : graph.nodes) {
    PlannedNode planned;
    for (const std::string& name : node.inputs) planned.inputs.push_back(name.empty() ? -1 : number(name));
    for (const std::string& name : node.outputs) planned.outputs.push_back(name.empty() ? -1 : number(name));
    Setup setup{
        node, node.attributes, specs_of(specs, node.inputs), specs_of(specs, node.outputs), options, device, position,
        {}};
    for (const int i : planned.inputs)
      setup.owned.push_back(reorders && i >= 0 && values[i].parameter && !values[i].output &&
                            values[i].readers.size() == 1);
    Custom made = prepare(setup);
    planned.prepared = std::move(made.prepared);
    planned.overrun = std::move(made.overrun);
    if (!planned.prepared.why_not.empty())
      throw Error("[graph] {}: node '{}' ({}): {}", graph.name, node.name, node.op, planned.prepared.why_not);
    for (const auto& [input, rows] : planned.prepared.stored_rows) values[planned.inputs[input]].rows = rows;
    if (planned.prepared.spatial && options.layout == LayoutChoice::fast)
      for (const auto* list : {&planned.inputs, &planned.outputs})
        for (const int i : *list)
          if (i >= 0 && (values[i].spec.shape.rank() == 4 || values[i].spec.shape.rank() == 5))
            values[i].channels_last = true;
    nodes.push_back(std::move(planned));
  }
  for (size_t i = 0; i < values.size(); ++i)
    if (!values[i].kept() && !values[i].readers.empty())
      nodes[values[i].readers.back()].dies.push_back(static_cast<int>(i));
  find_gradients(graph, options);
}

int Plan::add(const std::string& name, const TensorSpec& spec) {
  numbers_[name] = static_cast<int>(values.size());
  values.push_back({.name = name, .spec = spec});
  return numbers_[name];
}

int Plan::number(const std::string& name) const {
  const auto found = numbers_.find(name);
  if (found != numbers_.end()) return found->second;
  std::vector<std::string> legal;
  for (const PlannedValue& value : values) legal.push_back(value.name);
  fail_unknown("[executable]", "value", name, legal);
}

// An input's gradient is wanted where it was asked for and an output depends on it; an output has a seed where an input
// with a wanted gradient lies behind it.
void Plan::find_gradients(const Graph& graph, const CompileOptions& options) {
  if (options.mode != Mode::training) return;
  std::vector<bool> wanted(values.size()), reached(values.size());
  for (const GraphInput& input : graph.inputs)
    wanted[number(input.name)] = input.differentiable && is_float(input.spec.dtype) &&
                                 (input.parameter ? options.parameter_gradients : options.input_gradients);
  for (const PlannedNode& node : nodes) {
    const bool any = std::ranges::any_of(node.inputs, [&](int i) { return i >= 0 && wanted[i]; });
    for (const int o : node.outputs)
      if (o >= 0) wanted[o] = any && is_float(values[o].spec.dtype);
  }
  for (size_t i = 0; i < values.size(); ++i) reached[i] = values[i].output && wanted[i];
  for (size_t n = nodes.size(); n-- > 0;)
    if (std::ranges::any_of(nodes[n].outputs, [&](int o) { return o >= 0 && reached[o]; }))
      for (const int i : nodes[n].inputs)
        if (i >= 0 && wanted[i]) reached[i] = true;
  for (size_t i = 0; i < values.size(); ++i) values[i].gradient = reached[i] && (values[i].input || values[i].output);
}

// Backward goes through the nodes from the last to the first, and the first reader of a value is the last to
// contribute.
std::vector<int> Plan::parameters(const Graph& graph) const {
  std::vector<int> order;
  for (size_t n = graph.nodes.size(); n-- > 0;)
    for (const int i : nodes[n].inputs)
      if (i >= 0 && values[i].parameter && values[i].readers.front() == n && std::ranges::find(order, i) == order.end())
        order.push_back(i);
  // What is not trained comes last, so that an update goes over one piece of memory.
  std::ranges::stable_partition(order, [&](int i) { return values[i].differentiable; });
  return order;
}

}  // namespace d5::libtorch
