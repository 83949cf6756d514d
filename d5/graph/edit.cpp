// SPDX-License-Identifier: Apache-2.0
#include "d5/graph/edit.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <queue>
#include <unordered_map>

namespace d5 {
namespace {

template <class F>
void for_each_body(const Node& node, F&& f) {
  for (const auto& [name, value] : node.attributes.values())
    if (const auto* body = std::get_if<std::shared_ptr<const Graph>>(&value)) f(name, **body);
}

std::set<std::string> defined_values(const Graph& graph) {
  std::set<std::string> names;
  for (const GraphInput& input : graph.inputs) names.insert(input.name);
  for (const auto& [name, tensor] : graph.constants) names.insert(name);
  for (const auto& [name, tensor] : graph.initial) names.insert(name);
  for (const Node& node : graph.nodes)
    for (const std::string& output : node.outputs) names.insert(output);
  return names;
}

// The same node with every name that it reads, bodies included, replaced.
void rename_reads(Node& node, const std::map<std::string, std::string>& names) {
  for (std::string& input : node.inputs)
    if (const auto found = names.find(input); found != names.end() && !input.empty()) input = found->second;
  std::vector<std::pair<std::string, Graph>> changed;
  for_each_body(node, [&](const std::string& name, const Graph& body) {
    const auto captured = captured_values(body);
    if (std::ranges::any_of(captured, [&](const std::string& value) { return names.contains(value); }))
      changed.emplace_back(name, rename_captured(body, names));
  });
  for (auto& [name, body] : changed) node.attributes.set(name, std::make_shared<const Graph>(std::move(body)));
}

}  // namespace

std::string describe(const Graph& graph, size_t node) {
  return fmt::format("node {} '{}' ({})", node, graph.nodes[node].name, graph.nodes[node].op);
}

size_t find_node(const Graph& graph, const std::string& name) {
  for (size_t n = 0; n < graph.nodes.size(); ++n)
    if (graph.nodes[n].name == name) return n;
  return no_node;
}

size_t find_producer(const Graph& graph, const std::string& value) {
  for (size_t n = 0; n < graph.nodes.size(); ++n)
    if (std::ranges::find(graph.nodes[n].outputs, value) != graph.nodes[n].outputs.end()) return n;
  return no_node;
}

std::vector<size_t> find_readers(const Graph& graph, const std::string& value) {
  std::vector<size_t> readers;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const auto reads = values_read(graph.nodes[n]);
    if (std::ranges::find(reads, value) != reads.end()) readers.push_back(n);
  }
  return readers;
}

std::vector<size_t> find_nodes(const Graph& graph, const std::string& op) {
  std::vector<size_t> found;
  for (size_t n = 0; n < graph.nodes.size(); ++n)
    if (graph.nodes[n].op == op) found.push_back(n);
  return found;
}

bool is_output(const Graph& graph, const std::string& value) {
  return std::ranges::find(graph.outputs, value) != graph.outputs.end();
}

std::vector<std::string> values_read(const Node& node) {
  std::vector<std::string> names;
  for (const std::string& input : node.inputs)
    if (!input.empty()) names.push_back(input);
  for_each_body(node, [&](const std::string&, const Graph& body) {
    for (const std::string& value : captured_values(body)) names.push_back(value);
  });
  return names;
}

std::set<std::string> captured_values(const Graph& body) {
  const std::set<std::string> own = defined_values(body);
  std::set<std::string> captured;
  for (const Node& node : body.nodes)
    for (const std::string& value : values_read(node))
      if (!own.contains(value)) captured.insert(value);
  for (const std::string& output : body.outputs)
    if (!own.contains(output)) captured.insert(output);
  return captured;
}

std::string fresh_name(const Graph& graph, const std::string& base) {
  std::set<std::string> taken = defined_values(graph);
  for (const Node& node : graph.nodes) taken.insert(node.name);
  if (!taken.contains(base)) return base;
  for (size_t i = 2;; ++i)
    if (std::string name = fmt::format("{}_{}", base, i); !taken.contains(name)) return name;
}

void insert_node(Graph& graph, size_t before, Node node) {
  graph.nodes.insert(graph.nodes.begin() + static_cast<long>(std::min(before, graph.nodes.size())), std::move(node));
}

void replace_node(Graph& graph, size_t node, std::vector<Node> by) {
  const auto place = graph.nodes.erase(graph.nodes.begin() + static_cast<long>(node));
  graph.nodes.insert(place, std::make_move_iterator(by.begin()), std::make_move_iterator(by.end()));
}

void bypass_node(Graph& graph, size_t n, const std::string& value) {
  const Node node = graph.nodes[n];
  std::vector<std::string> read;
  for (const std::string& output : node.outputs)
    if (!output.empty() && (is_output(graph, output) || !find_readers(graph, output).empty())) read.push_back(output);
  if (read.size() > 1)
    throw Error("[graph] {}: {} makes {}, which are all read; it cannot be left out", graph.name, describe(graph, n),
                fmt::join(read, ", "));
  graph.nodes.erase(graph.nodes.begin() + static_cast<long>(n));
  if (!read.empty()) replace_value(graph, read[0], value);
}

void remove_node(Graph& graph, size_t n) {
  for (const std::string& output : graph.nodes[n].outputs)
    if (!output.empty() && (is_output(graph, output) || !find_readers(graph, output).empty()))
      throw Error("[graph] {}: {} makes '{}', which is still read", graph.name, describe(graph, n), output);
  graph.nodes.erase(graph.nodes.begin() + static_cast<long>(n));
}

void replace_value(Graph& graph, const std::string& from, const std::string& to) {
  for (Node& node : graph.nodes) rename_reads(node, {{from, to}});
  if (!is_output(graph, from) || from == to) return;
  if (find_producer(graph, from) == no_node)
    graph.nodes.push_back({.op = "Identity", .name = fresh_name(graph, from), .inputs = {to}, .outputs = {from}});
}

size_t remove_dead(Graph& graph) {
  std::set<std::string> wanted(graph.outputs.begin(), graph.outputs.end());
  std::vector<bool> alive(graph.nodes.size(), false);
  // Nodes are in an order in which they can run, so one pass from the end sees every reader before what it reads.
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    alive[n] = std::ranges::any_of(graph.nodes[n].outputs, [&](const std::string& o) { return wanted.contains(o); });
    if (!alive[n]) continue;
    for (std::string& value : values_read(graph.nodes[n])) wanted.insert(std::move(value));
  }
  size_t kept = 0;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (!alive[n]) continue;
    if (kept != n) graph.nodes[kept] = std::move(graph.nodes[n]);
    ++kept;
  }
  const size_t removed = graph.nodes.size() - kept;
  graph.nodes.resize(kept);
  std::erase_if(graph.constants, [&](const auto& one) { return !wanted.contains(one.first); });
  std::erase_if(graph.initial, [&](const auto& one) { return !wanted.contains(one.first); });
  std::erase_if(graph.inputs, [&](const GraphInput& one) { return one.parameter && !wanted.contains(one.name); });
  return removed;
}

void sort_nodes(Graph& graph, const std::function<bool(const std::string& value)>& outside) {
  const size_t count = graph.nodes.size();
  std::set<std::string> given;
  for (const GraphInput& input : graph.inputs) given.insert(input.name);
  for (const auto& [name, tensor] : graph.constants) given.insert(name);
  const auto is_given = [&](const std::string& value) { return given.contains(value) || (outside && outside(value)); };

  std::unordered_map<std::string, size_t> producer;
  for (size_t n = 0; n < count; ++n)
    for (const std::string& output : graph.nodes[n].outputs) {
      if (output.empty()) continue;
      if (const auto [found, is_new] = producer.emplace(output, n); !is_new)
        throw Error("[graph] {}: '{}' is made by {} and by {}", graph.name, output, describe(graph, found->second),
                    describe(graph, n));
      if (given.contains(output))
        throw Error("[graph] {}: '{}' is an input or a constant, but {} makes it", graph.name, output,
                    describe(graph, n));
    }

  std::vector<size_t> missing(count, 0);
  std::vector<std::vector<size_t>> readers(count);
  for (size_t n = 0; n < count; ++n)
    for (const std::string& value : values_read(graph.nodes[n])) {
      if (const auto found = producer.find(value); found != producer.end()) {
        readers[found->second].push_back(n);
        ++missing[n];
      } else if (!is_given(value)) {
        throw Error("[graph] {}: {} reads '{}', which nobody makes", graph.name, describe(graph, n), value);
      }
    }

  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;  // the first in the file first
  for (size_t n = 0; n < count; ++n)
    if (missing[n] == 0) ready.push(n);
  std::vector<size_t> order;
  while (!ready.empty()) {
    const size_t n = ready.top();
    ready.pop();
    order.push_back(n);
    for (const size_t reader : readers[n])
      if (--missing[reader] == 0) ready.push(reader);
  }
  if (order.size() < count) {
    // From any node that is left, back along what it waits for, until a node comes again.
    size_t at = 0;
    while (missing[at] == 0) ++at;
    std::vector<size_t> path;
    while (std::ranges::find(path, at) == path.end()) {
      path.push_back(at);
      for (const std::string& value : values_read(graph.nodes[at]))
        if (const auto found = producer.find(value); found != producer.end() && missing[found->second] > 0)
          at = found->second;
    }
    path.erase(path.begin(), std::ranges::find(path, at));
    std::vector<std::string> names;
    for (size_t i = path.size(); i-- > 0 && names.size() < 8;) names.push_back(describe(graph, path[i]));
    throw Error("[graph] {}: nodes wait for each other: {}{}", graph.name, fmt::join(names, " -> "),
                path.size() > 8 ? " -> ..." : "");
  }
  std::vector<Node> sorted;
  sorted.reserve(count);
  for (const size_t n : order) sorted.push_back(std::move(graph.nodes[n]));
  graph.nodes = std::move(sorted);
  for (const std::string& output : graph.outputs)
    if (!producer.contains(output) && !is_given(output))
      throw Error("[graph] {}: output '{}' is made by no node", graph.name, output);
}

InlinedBody inlined_body(const Graph& body, const std::vector<std::string>& inputs, const std::string& prefix,
                         const std::function<std::string(const std::string& base)>& fresh) {
  if (inputs.size() != body.inputs.size())
    throw Error("body '{}' has {} inputs; {} are given", body.name, body.inputs.size(), inputs.size());
  InlinedBody inlined;
  std::map<std::string, std::string> names;
  for (size_t i = 0; i < inputs.size(); ++i) names[body.inputs[i].name] = inputs[i];
  for (const auto& [name, tensor] : body.constants) {
    names[name] = fresh(prefix + name);
    inlined.constants[names[name]] = tensor;
  }
  for (const Node& node : body.nodes)
    for (const std::string& output : node.outputs)
      if (!output.empty()) names[output] = fresh(prefix + output);
  inlined.nodes = body.nodes;
  for (Node& node : inlined.nodes) {
    node.name = prefix + node.name;
    rename_reads(node, names);
    for (std::string& output : node.outputs)
      if (!output.empty()) output = names.at(output);
  }
  for (const std::string& output : body.outputs) {
    const auto found = names.find(output);
    inlined.outputs.push_back(found == names.end() ? output : found->second);
  }
  return inlined;
}

Graph rename_captured(const Graph& body, const std::map<std::string, std::string>& names) {
  const std::set<std::string> own = defined_values(body);
  std::set<std::string> taken = captured_values(body);
  std::map<std::string, std::string> wanted;
  for (const std::string& value : taken)
    if (const auto found = names.find(value); found != names.end()) wanted.insert(*found);
  for (const auto& [from, to] : names) taken.insert(to);
  taken.insert(own.begin(), own.end());
  // A value of the body's own that is called as one from outside shall be would hide it: it takes another name.
  std::map<std::string, std::string> moved;
  for (const auto& [from, to] : wanted)
    if (!to.empty() && own.contains(to) && !moved.contains(to))
      for (size_t i = 2; !moved.contains(to); ++i)
        if (std::string name = fmt::format("{}_{}", to, i); taken.insert(name).second) moved[to] = name;
  const auto move = [&](std::string& name) {
    if (const auto found = moved.find(name); found != moved.end()) name = found->second;
  };
  wanted.insert(moved.begin(), moved.end());

  Graph result = body;
  for (GraphInput& input : result.inputs) move(input.name);
  for (auto* tensors : {&result.constants, &result.initial})
    for (const auto& [from, to] : moved)
      if (auto tensor = tensors->extract(from)) {
        tensor.key() = to;
        tensors->insert(std::move(tensor));
      }
  for (Node& node : result.nodes) {
    rename_reads(node, wanted);
    for (std::string& output : node.outputs) move(output);
  }
  for (std::string& output : result.outputs)
    if (const auto found = wanted.find(output); found != wanted.end()) output = found->second;
  return result;
}

}  // namespace d5
