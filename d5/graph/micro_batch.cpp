// SPDX-License-Identifier: Apache-2.0
#include "d5/graph/micro_batch.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "d5/graph/integer_program.hpp"

namespace d5 {

std::vector<Index> micro_batch_sizes(Index batch) {
  std::set<Index> sizes;
  for (Index size = batch; size >= 1; size /= 2) {
    sizes.insert(size);
    if (size % 2) break;
  }
  for (Index size = 1; size < batch; size *= 2) sizes.insert(size);
  return {sizes.begin(), sizes.end()};
}

std::optional<Division> fastest_division(Index batch, std::span<const MeasuredSize> sizes, double limit_bytes) {
  struct Best {
    double seconds = std::numeric_limits<double>::infinity();
    const MeasuredSize* last = nullptr;
  };
  std::vector<Best> best(static_cast<size_t>(batch) + 1);
  best[0].seconds = 0;
  for (Index n = 1; n <= batch; ++n)
    for (const MeasuredSize& size : sizes) {
      if (size.samples > n || size.workspace_bytes > limit_bytes) continue;
      const double seconds = best[static_cast<size_t>(n - size.samples)].seconds + size.seconds;
      if (seconds < best[static_cast<size_t>(n)].seconds) best[static_cast<size_t>(n)] = {seconds, &size};
    }
  if (!best[static_cast<size_t>(batch)].last) return {};
  Division division{.seconds = best[static_cast<size_t>(batch)].seconds};
  for (Index n = batch; n > 0; n -= division.pieces.back()) {
    const MeasuredSize& size = *best[static_cast<size_t>(n)].last;
    division.pieces.push_back(size.samples);
    division.workspace_bytes = std::max(division.workspace_bytes, size.workspace_bytes);
  }
  std::ranges::sort(division.pieces, std::greater());
  return division;
}

std::vector<Division> best_divisions(Index batch, std::span<const MeasuredSize> sizes) {
  std::vector<Division> divisions;
  double limit = std::numeric_limits<double>::infinity();
  while (auto division = fastest_division(batch, sizes, limit)) {
    limit = std::nextafter(division->workspace_bytes, -1.0);
    divisions.push_back(std::move(*division));
    if (limit < 0) break;
  }
  return divisions;
}

std::optional<std::vector<Division>> fastest_divisions(std::span<const Index> batches,
                                                       std::span<const std::vector<MeasuredSize>> sizes,
                                                       double limit_bytes, Workspaces workspaces) {
  std::vector<Division> chosen;
  if (workspaces == Workspaces::shared) {
    for (size_t i = 0; i < batches.size(); ++i) {
      auto division = fastest_division(batches[i], sizes[i], limit_bytes);
      if (!division) return {};
      chosen.push_back(std::move(*division));
    }
    return chosen;
  }
  BinaryProgram program;
  BinaryProgram::Row memory{{}, 0, limit_bytes};
  std::vector<std::vector<Division>> divisions;
  for (size_t i = 0; i < batches.size(); ++i) {
    divisions.push_back(best_divisions(batches[i], sizes[i]));
    BinaryProgram::Row one{{}, 1, 1};
    for (const Division& division : divisions.back()) {
      const int variable = static_cast<int>(program.costs.size());
      program.costs.push_back(division.seconds);
      one.terms.emplace_back(variable, 1);
      memory.terms.emplace_back(variable, division.workspace_bytes);
    }
    program.rows.push_back(std::move(one));
  }
  program.rows.push_back(std::move(memory));
  const auto solution = solve(program);
  if (!solution) return {};
  size_t variable = 0;
  for (std::vector<Division>& of_operator : divisions)
    for (Division& division : of_operator)
      if ((*solution)[variable++]) chosen.push_back(std::move(division));
  return chosen;
}

Graph with_micro_batches(Graph graph, const std::map<std::string, std::vector<Index>>& pieces) {
  const Specs specs = infer_specs(graph);
  std::set<std::string> used;
  std::vector<Node> nodes;
  for (Node& node : graph.nodes) {
    const auto found = pieces.find(node.name);
    if (found == pieces.end()) {
      nodes.push_back(std::move(node));
      continue;
    }
    used.insert(node.name);
    const std::vector<Index>& sizes = found->second;
    const Shape& shape = specs.at(node.inputs[0]).shape;
    if (std::accumulate(sizes.begin(), sizes.end(), Index{0}) != shape[0])
      throw Error("[micro-batch] {}: the pieces add up to {}, the batch is {}", node.name,
                  std::accumulate(sizes.begin(), sizes.end(), Index{0}), shape[0]);
    if (sizes.size() == 1) {
      nodes.push_back(std::move(node));
      continue;
    }
    const std::string lengths = node.name + ".pieces";
    graph.constants[lengths] =
        Tensor::from<int64_t>({static_cast<Index>(sizes.size())}, std::vector<int64_t>(sizes.begin(), sizes.end()));
    Node split{"Split", node.name + ".split", {node.inputs[0], lengths}, {}, {}};
    Node join{"Concat", node.name + ".join", {}, {node.outputs[0]}, {}};
    split.attributes.set("axis", int64_t{0});
    join.attributes.set("axis", int64_t{0});
    std::vector<Node> parts;
    for (size_t i = 0; i < sizes.size(); ++i) {
      Node part = node;
      part.name = fmt::format("{}.{}", node.name, i);
      part.inputs[0] = part.name + ".x";
      part.outputs[0] = part.name + ".y";
      split.outputs.push_back(part.inputs[0]);
      join.inputs.push_back(part.outputs[0]);
      parts.push_back(std::move(part));
    }
    nodes.push_back(std::move(split));
    nodes.insert(nodes.end(), std::make_move_iterator(parts.begin()), std::make_move_iterator(parts.end()));
    nodes.push_back(std::move(join));
  }
  for (const auto& [name, sizes] : pieces)
    if (!used.contains(name)) throw Error("[micro-batch] the network has no node '{}'", name);
  graph.nodes = std::move(nodes);
  return graph;
}

}  // namespace d5
