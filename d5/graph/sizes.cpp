// SPDX-License-Identifier: Apache-2.0
#include "d5/graph/sizes.hpp"

#include <algorithm>
#include <charconv>
#include <sstream>

namespace d5 {
namespace {

GraphInput& input_named(Graph& graph, const std::string& name) {
  for (GraphInput& input : graph.inputs)
    if (input.name == name) return input;
  std::vector<std::string> legal;
  for (const GraphInput& input : graph.inputs) legal.push_back(input.name);
  fail_unknown(fmt::format("[graph] {}:", graph.name), "input", name, legal);
}

bool counts_samples(const GraphInput& input) { return !input.parameter && input.spec.shape.rank() > 0; }

bool any_rank(const GraphInput& input) { return input.symbols.size() == 1 && input.symbols[0] == "*"; }

}  // namespace

std::set<std::string> free_sizes(const Graph& graph) {
  std::set<std::string> names;
  for (const GraphInput& input : graph.inputs)
    for (const std::string& symbol : input.symbols)
      if (!symbol.empty() && symbol != "*") names.insert(symbol);
  return names;
}

std::map<std::string, Index> parse_sizes(const std::string& text) {
  std::map<std::string, Index> sizes;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const size_t equals = part.find('=');
    Index size = 0;
    const char* const end = part.data() + part.size();
    const auto read = equals == std::string::npos ? std::from_chars_result{end, std::errc::invalid_argument}
                                                  : std::from_chars(part.data() + equals + 1, end, size);
    if (equals == 0 || read.ec != std::errc() || read.ptr != end)
      throw UsageError("[sizes] '{}' is not of the form NAME=NUMBER", part);
    sizes[part.substr(0, equals)] = size;
  }
  return sizes;
}

void bind_sizes(Graph& graph, const std::map<std::string, Index>& sizes) {
  const auto names = free_sizes(graph);
  for (const auto& [name, size] : sizes) {
    if (!names.contains(name)) {
      const std::vector<std::string> legal(names.begin(), names.end());
      fail_unknown(fmt::format("[graph] {}:", graph.name), "free size", name, legal);
    }
    if (size < 0) throw UsageError("[graph] {}: size '{}' is {}; none is negative", graph.name, name, size);
  }
  for (GraphInput& input : graph.inputs) {
    auto bound = input.spec.shape.sizes();
    for (size_t axis = 0; axis < bound.size() && axis < input.symbols.size(); ++axis)
      if (const auto found = sizes.find(input.symbols[axis]); found != sizes.end()) bound[axis] = found->second;
    input.spec.shape = Shape(std::move(bound));
  }
}

void fix_sizes(Graph& graph, const std::map<std::string, Index>& sizes) {
  bind_sizes(graph, sizes);
  for (GraphInput& input : graph.inputs)
    for (std::string& symbol : input.symbols)
      if (sizes.contains(symbol)) symbol.clear();
}

std::set<std::string> batch_sizes(const Graph& graph) {
  std::set<std::string> names;
  for (const GraphInput& input : graph.inputs)
    if (counts_samples(input) && !input.symbols.empty() && !input.symbols[0].empty()) names.insert(input.symbols[0]);
  return names;
}

void bind_batch(Graph& graph, Index samples) {
  const auto names = batch_sizes(graph);
  std::map<std::string, Index> sizes;
  for (const std::string& name : names) sizes[name] = samples;
  bind_sizes(graph, sizes);
  if (!names.empty()) return;
  const auto first = std::ranges::find_if(graph.inputs, counts_samples);
  if (first != graph.inputs.end() && first->spec.shape[0] != samples)
    throw UsageError("[net] {}: batch is {}, but input '{}' has a first size of {} that cannot be changed", graph.name,
                     samples, first->name, first->spec.shape[0]);
}

void bind_input(Graph& graph, const std::string& name, DType type, const Shape& shape) {
  GraphInput& input = input_named(graph, name);
  const auto fail = [&] {
    throw Error("[graph] {}: input '{}' is {}; {} was given", graph.name, name, to_string(input.spec),
                to_string(TensorSpec{type, shape}));
  };
  if (input.kind != ValueKind::tensor || input.spec.dtype != type) fail();
  if (!any_rank(input)) {
    if (input.spec.shape.rank() != shape.rank()) fail();
    for (size_t axis = 0; axis < shape.rank(); ++axis) {
      const bool is_free = axis < input.symbols.size() && !input.symbols[axis].empty();
      if (!is_free && input.spec.shape[axis] != shape[axis]) fail();
    }
  } else {
    input.symbols.clear();
  }
  input.spec.shape = shape;
}

void bind_value(Graph& graph, const std::string& name, Tensor value) {
  bind_input(graph, name, value.dtype(), value.shape());
  std::erase_if(graph.inputs, [&](const GraphInput& input) { return input.name == name; });
  graph.constants[name] = std::move(value);
}

}  // namespace d5
