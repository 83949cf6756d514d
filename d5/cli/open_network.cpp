// SPDX-License-Identifier: Apache-2.0
#include "d5/cli/open_network.hpp"

#include <filesystem>

#include "d5/bench/net_case.hpp"
#include "d5/graph/modernise.hpp"
#include "d5/graph/onnx/read.hpp"
#include "d5/graph/sizes.hpp"
#include "d5/graph/trainable.hpp"
#include "d5/networks/initialise.hpp"
#include "d5/networks/loss.hpp"
#include "d5/networks/network.hpp"
#include "d5/recipe/values.hpp"
#include "d5/runner/runner.hpp"

namespace d5 {
namespace {

Graph built_network(const std::string& name, const OpenOptions& options) {
  auto sizes = parse_sizes(options.sizes);
  const auto batch = sizes.extract("N");
  if (!sizes.empty()) throw UsageError("[model] {}: size '{}' is not free; N is", name, sizes.begin()->first);
  nlohmann::json values = nlohmann::json::object();
  for (const Parameter& parameter : own_parameters(name))
    if (const auto found = options.values.find(parameter.name); found != options.values.end() && !found->second.empty())
      values[parameter.name] = parse_value(found->second);
  const Mode mode = options.training ? Mode::training : Mode::inference;
  Graph graph =
      build_network(name, attributes_from_json(values), batch ? batch.mapped() : 1, parse_dtype(options.dtype), mode);
  if (options.training && !registered<networks>(name).loss.empty()) {
    graph = with_loss(std::move(graph), registered<networks>(name).loss, {.keep_scores = true});
    set_loss(graph, loss_name);
  }
  if (options.initial_values) graph.initial = initial_values(graph, 1);
  record_trainable(graph);
  return graph;
}

}  // namespace

Graph open_network(const std::string& name, const OpenOptions& options) {
  if (find_registered<networks>(name)) return built_network(name, options);
  if (!std::filesystem::exists(name))
    throw UsageError("[model] '{}' is neither a file nor a built-in network (see 'd5 list networks')", name);
  if (options.training) throw UsageError("[model] --training is for built-in networks; '{}' is a file", name);
  const Graph read = read_onnx(name);
  Graph graph = [&] {
    try {
      return modernise(read);
    } catch (const Error& error) {  // names the graph and the node
      throw error.within("[model] " + name);
    }
  }();
  if (graph.name.empty()) graph.name = std::filesystem::path(name).stem().string();
  bind_sizes(graph, parse_sizes(options.sizes));
  return graph;
}

std::map<std::string, std::string> options_of_networks(const std::vector<std::string>& words) {
  std::map<std::string, std::string> own;
  for (const std::string& word : words)
    for (const std::string& name : split_names(word))
      if (const NetworkEntry* entry = find_registered<networks>(name))
        for (const Parameter& parameter : entry->parameters)
          own.try_emplace(parameter.name, fmt::format("{} [{}]", parameter.about, to_string(parameter.otherwise)));
  return own;
}

}  // namespace d5
