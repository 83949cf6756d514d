// SPDX-License-Identifier: Apache-2.0
#include "d5/networks/form.hpp"

#include <algorithm>
#include <set>

namespace d5 {
namespace {

bool is_batch_norm(const Node& node) { return node.op == "BatchNormalization"; }

void remove_unread_constants(Graph& graph, const std::set<std::string>& candidates) {
  for (const std::string& name : candidates) {
    const auto reads = [&](const Node& node) { return std::ranges::find(node.inputs, name) != node.inputs.end(); };
    if (std::ranges::none_of(graph.nodes, reads)) graph.constants.erase(name);
  }
}

}  // namespace

Graph training_form(Graph graph) {
  for (Node& node : graph.nodes) {
    if (is_batch_norm(node) && !node.attributes.flag("training_mode", false)) {
      node.attributes.set("training_mode", int64_t{1});
      node.outputs.resize(1);
      for (const size_t statistic : {3, 4}) {
        node.outputs.push_back(node.inputs.at(statistic) + ".next");
        graph.outputs.push_back(node.outputs.back());
      }
    }
    if (node.op == "Dropout") {
      node.inputs.resize(3);
      node.inputs[2] = "true";
      graph.constants.insert_or_assign("true", Tensor::scalar(1, DType::boolean));
    }
  }
  return graph;
}

Graph inference_form(Graph graph) {
  std::map<std::string, std::string> instead;  // output of a Dropout -> what it read
  std::set<std::string> unread;
  std::vector<Node> kept;
  const auto is_output = [&](const std::string& name) {
    return std::ranges::find(graph.outputs, name) != graph.outputs.end();
  };
  for (Node& node : graph.nodes) {
    for (std::string& name : node.inputs)
      if (const auto found = instead.find(name); found != instead.end()) name = found->second;
    if (node.op == "Dropout") {
      unread.insert(node.inputs.begin() + 1, node.inputs.end());
      if (!is_output(node.outputs[0])) {
        instead[node.outputs[0]] = node.inputs[0];
        continue;
      }
      node = {.op = "Identity", .name = node.name, .inputs = {node.inputs[0]}, .outputs = {node.outputs[0]}};
    }
    if (is_batch_norm(node)) {
      node.attributes.erase("training_mode");
      for (size_t i = 1; i < node.outputs.size(); ++i) std::erase(graph.outputs, node.outputs[i]);
      node.outputs.resize(1);
    }
    kept.push_back(std::move(node));
  }
  graph.nodes = std::move(kept);
  remove_unread_constants(graph, unread);
  return graph;
}

std::map<std::string, std::string> running_updates(const Graph& graph) {
  std::map<std::string, std::string> updates;
  for (const Node& node : graph.nodes)
    if (is_batch_norm(node) && node.outputs.size() == 3 && node.attributes.flag("training_mode", false))
      for (const size_t i : {1, 2}) updates[node.inputs.at(i + 2)] = node.outputs[i];
  return updates;
}

}  // namespace d5
