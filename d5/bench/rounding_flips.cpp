// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/rounding_flips.hpp"

#include <algorithm>
#include <cmath>

#include "d5/backends/backend.hpp"
#include "d5/core/convert.hpp"
#include "d5/core/rng.hpp"

namespace d5 {
namespace {

constexpr int draws = 4;
// Twice the root mean square of a few draws covers a draw more (bench/net_problem.cpp); two runs are apart by the root
// of two of what one is moved.
const double safety = 2 * std::sqrt(2.0);

// Moves what each node has computed, by up to the rounding error of a sum as long as the operator's.
class Mover final : public Observer {
 public:
  Mover(const Graph& graph, Executable& executable) : specs_(infer_specs(graph)) {
    for (const auto& [name, spec] : specs_)
      if (spec.dtype == DType::f32) views_[name] = executable.view(Executable::Role::value, name);
  }
  void draw(uint64_t seed) { seed_ = seed; }

  void node_end(const Node& node, Pass pass) override {
    const auto op = make_operator(node);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const auto found = views_.find(node.outputs[i]);
      if (found == views_.end()) continue;
      const Rounding rounding = op->rounding(specs_of(specs_, node.inputs), pass, i);
      const double relative =
          (std::min(rounding.terms, 6 * std::sqrt(rounding.terms)) + rounding.units) * round_off(DType::f32);
      const Rng rng(seed_, stream_of(node.outputs[i]));
      const auto values = found->second.values<float>();
      for (size_t k = 0; k < values.size(); ++k)
        values[k] = static_cast<float>(values[k] * (1 + relative * (2 * rng.uniform(k) - 1)));
    }
  }

 private:
  Specs specs_;
  std::map<std::string, Tensor> views_;
  uint64_t seed_ = 0;
};

}  // namespace

bool is_quantised(const Graph& graph) {
  return std::ranges::any_of(
      graph.nodes, [](const Node& node) { return node.op == "QuantizeLinear" || node.op == "DynamicQuantizeLinear"; });
}

double distance_of(const Tensor& a, const Tensor& b) {
  double squares = 0;
  for (Index i = 0; i < a.elements(); ++i)
    squares += std::pow(load_as_double(a.dtype(), a.data(), i) - load_as_double(b.dtype(), b.data(), i), 2);
  return std::sqrt(squares);
}

std::vector<double> flip_distances(const Graph& graph, const std::map<std::string, GraphValue>& inputs) {
  const auto backend = open_backend("reference");
  ParameterSet parameters;
  CompileOptions options;
  options.keep_all = true;
  if (const auto reason = backend->why_not(graph, options)) throw CannotRun("{}", *reason);
  const auto executable = backend->compile(graph, parameters, options);
  Mover mover(graph, *executable);
  std::vector<Tensor> plain;
  std::vector<double> squares(graph.outputs.size());
  for (int draw = 0; draw <= draws; ++draw) {
    mover.draw(static_cast<uint64_t>(draw));
    for (const GraphInput& input : graph.inputs)
      if (const auto given = inputs.find(input.name); given != inputs.end())
        executable->write_value(input.name, given->second);
    executable->forward({.observer = draw == 0 ? nullptr : &mover});
    for (size_t i = 0; i < graph.outputs.size(); ++i) {
      const Tensor made = executable->read_value(graph.outputs[i]).as_tensor();
      if (draw == 0)
        plain.push_back(made);
      else if (is_float(made.dtype()))
        squares[i] += std::pow(distance_of(plain[i], made), 2) / draws;
    }
  }
  std::vector<double> distances;
  for (const double square : squares) distances.push_back(safety * std::sqrt(square));
  return distances;
}

}  // namespace d5
