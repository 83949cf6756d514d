// SPDX-License-Identifier: Apache-2.0
#include "d5/networks/initialise.hpp"

#include <charconv>
#include <cmath>

#include "d5/core/convert.hpp"
#include "d5/core/rng.hpp"

namespace d5 {
namespace {

const std::vector<std::string> legal{"zeros", "ones",   "constant:V", "normal:D", "uniform:A",
                                     "he",    "he-out", "xavier",     "lecun"};

struct Initialiser {
  std::string kind;
  double argument = 0;
};

Initialiser parse(const GraphInput& parameter) {
  const std::string& text = parameter.initialiser;
  const size_t colon = text.find(':');
  Initialiser result{text.substr(0, colon)};
  const bool takes_argument = result.kind == "constant" || result.kind == "normal" || result.kind == "uniform";
  if (takes_argument != (colon != std::string::npos))
    fail_unknown(fmt::format("[initialise] {}", parameter.name), "initialiser", text, legal);
  if (!takes_argument) return result;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, result.argument);
  if (error != std::errc() || stop != end)
    throw UsageError("[initialise] {}: initialiser is '{}'; a number is wanted after '{}:'", parameter.name, text,
                     result.kind);
  return result;
}

void fill(const Tensor& tensor, double value) {
  for (Index i = 0; i < tensor.elements(); ++i) store_from_double(tensor.dtype(), tensor.data(), i, value);
}

Tensor initial_value(const Graph& graph, const GraphInput& parameter, uint64_t seed) {
  const Initialiser how = parse(parameter);
  const Tensor tensor(parameter.spec.dtype, parameter.spec.shape);
  const Rng rng(seed, stream_of(parameter.name));
  if (how.kind == "zeros" || how.kind == "ones") {
    fill(tensor, how.kind == "ones" ? 1 : 0);
  } else if (how.kind == "constant") {
    fill(tensor, how.argument);
  } else if (how.kind == "normal") {
    fill_normal(tensor, rng, 0, how.argument);
  } else if (how.kind == "uniform") {
    fill_uniform(tensor, rng, -how.argument, how.argument);
  } else if (how.kind == "he") {
    fill_normal(tensor, rng, 0, std::sqrt(2 / fans(graph, parameter).in));
  } else if (how.kind == "he-out") {
    fill_normal(tensor, rng, 0, std::sqrt(2 / fans(graph, parameter).out));
  } else if (how.kind == "lecun") {
    fill_normal(tensor, rng, 0, std::sqrt(1 / fans(graph, parameter).in));
  } else if (how.kind == "xavier") {
    const Fans f = fans(graph, parameter);
    const double limit = std::sqrt(6 / (f.in + f.out));
    fill_uniform(tensor, rng, -limit, limit);
  } else {
    fail_unknown(fmt::format("[initialise] {}", parameter.name), "initialiser", parameter.initialiser, legal);
  }
  return tensor;
}

}  // namespace

Fans fans(const Graph& graph, const GraphInput& parameter) {
  const Shape& shape = parameter.spec.shape;
  for (const Node& node : graph.nodes)
    for (size_t i = 1; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != parameter.name || shape.rank() < 2) continue;
      const double taps = static_cast<double>(shape.elements(2, shape.rank()));
      const double first = static_cast<double>(shape[0]), second = static_cast<double>(shape[1]);
      const double groups = static_cast<double>(node.attributes.integer("group", 1));
      if (node.op == "Conv" && i == 1) return {second * taps, first / groups * taps};
      if (node.op == "ConvTranspose" && i == 1) return {first / groups * taps, second * taps};
      if (node.op == "Gemm" && i == 1)
        return node.attributes.flag("transB", false) ? Fans{second, first} : Fans{first, second};
      if (node.op == "MatMul" && i == 1 && shape.rank() == 2) return {first, second};
      // W and R of a recurrent layer: directions x gates * hidden x inputs.
      if ((node.op == "LSTM" || node.op == "GRU" || node.op == "RNN") && i <= 2)
        return {static_cast<double>(shape[2]), static_cast<double>(node.attributes.integer("hidden_size", shape[1]))};
    }
  throw Error("[initialise] {} is {}; '{}' needs a weight of Conv, ConvTranspose, Gemm, MatMul or a recurrent layer",
              parameter.name, to_string(parameter.spec), parameter.initialiser);
}

std::map<std::string, Tensor> initial_values(const Graph& graph, uint64_t seed) {
  std::map<std::string, Tensor> values;
  for (const GraphInput& input : graph.inputs) {
    if (!input.parameter) continue;
    const auto given = graph.initial.find(input.name);
    if (given == graph.initial.end() && input.initialiser.empty())
      throw Error("[initialise] {}: parameter '{}' has neither a value nor an initialiser", graph.name, input.name);
    values[input.name] = given != graph.initial.end() ? given->second : initial_value(graph, input, seed);
  }
  return values;
}

}  // namespace d5
