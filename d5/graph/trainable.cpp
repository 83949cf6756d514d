// SPDX-License-Identifier: Apache-2.0
#include "d5/graph/trainable.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "d5/graph/edit.hpp"

namespace d5 {
namespace {

constexpr const char* trainable_key = "d5.trainable";
constexpr const char* loss_key = "d5.loss";

// Inputs that follow the batches instead of being trained.
bool is_statistic(const Node& node, size_t input) { return node.op == "BatchNormalization" && input >= 3; }

// Exporters store equal tensors once: ones are a scale and the variance of several layers. What follows the batches of
// one layer is a tensor of its own.
void own_statistics(Graph& graph) {
  std::map<std::string, size_t> uses;
  for (const Node& node : graph.nodes)
    for (const std::string& value : values_read(node)) ++uses[value];
  for (Node& node : graph.nodes)
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const std::string name = node.inputs[i];
      const bool repeats = std::ranges::count(node.inputs, name) > 1;
      if (!is_statistic(node, i) || !graph.constants.contains(name) || (uses[name] == 1 && !repeats)) continue;
      node.inputs[i] = fresh_name(graph, name);
      graph.constants[node.inputs[i]] = graph.constants.at(name);
    }
}

std::optional<std::set<std::string>> recorded(const Graph& graph) {
  const auto found = graph.metadata.find(trainable_key);
  if (found == graph.metadata.end()) return {};
  const auto list = nlohmann::json::parse(found->second, nullptr, false);
  if (!list.is_array() || !std::ranges::all_of(list, [](const auto& name) { return name.is_string(); }))
    throw Error("[graph] {}: {} is '{}'; a list of names is wanted", graph.name, trainable_key, found->second);
  return list.get<std::set<std::string>>();
}

}  // namespace

std::vector<std::string> make_trainable(Graph& graph) {
  own_statistics(graph);
  const auto named = recorded(graph);
  std::set<std::string> trained, statistics;
  for (const Node& node : graph.nodes) {
    const OperatorEntry* entry = find_registered<operators>(node.op);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const auto found = graph.constants.find(node.inputs[i]);
      if (found == graph.constants.end() || !is_float(found->second.dtype())) continue;
      if (is_statistic(node, i))
        statistics.insert(found->first);
      else if (named ? named->contains(found->first) : entry && entry->has_backward && found->second.elements() > 1)
        trained.insert(found->first);
    }
  }
  for (const auto* names : {&trained, &statistics})
    for (const std::string& name : *names) {
      const auto found = graph.constants.find(name);
      if (found == graph.constants.end()) continue;
      graph.inputs.push_back({.name = name,
                              .spec = {found->second.dtype(), found->second.shape()},
                              .parameter = true,
                              .differentiable = names == &trained});
      graph.initial[name] = found->second;
      graph.constants.erase(found);
    }
  return {trained.begin(), trained.end()};
}

void freeze_parameters(Graph& graph, const std::map<std::string, Tensor>& values) {
  std::erase_if(graph.inputs, [&](const GraphInput& input) {
    if (!input.parameter) return false;
    const auto given = values.find(input.name);
    const auto initial = graph.initial.find(input.name);
    if (given == values.end() && initial == graph.initial.end()) return false;
    graph.constants[input.name] = given != values.end() ? given->second : initial->second;
    if (initial != graph.initial.end()) graph.initial.erase(initial);
    return true;
  });
}

void record_trainable(Graph& graph) {
  nlohmann::json names = nlohmann::json::array();
  for (const GraphInput& input : graph.inputs)
    if (input.parameter && input.differentiable) names.push_back(input.name);
  graph.metadata[trainable_key] = names.dump();
}

std::optional<std::string> loss_of(const Graph& graph) {
  const auto found = graph.metadata.find(loss_key);
  return found == graph.metadata.end() ? std::nullopt : std::optional(found->second);
}

void set_loss(Graph& graph, const std::string& value) {
  if (find_producer(graph, value) == no_node)
    throw Error("[graph] {}: no node makes '{}', which was to be the loss", graph.name, value);
  graph.metadata[loss_key] = value;
}

}  // namespace d5
