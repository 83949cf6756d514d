// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/net_problem.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "d5/bench/net_oracle_cache.hpp"
#include "d5/core/convert.hpp"
#include "d5/core/rng.hpp"
#include "d5/graph/transforms/precision.hpp"
#include "d5/networks/form.hpp"
#include "d5/networks/initialise.hpp"

namespace d5 {
namespace {

// Numbers of rows and classes: an integer input must stay below what its readers index with it.
Index values_below(const Graph& graph, const Specs& specs, const std::string& name) {
  Index least = 0;
  const auto limit = [&](Index bound) { least = least == 0 ? bound : std::min(least, bound); };
  for (const Node& node : graph.nodes)
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != name) continue;
      const Shape& first = specs.at(node.inputs[0]).shape;
      if (node.op.starts_with("Gather") && i == 1)
        limit(first[valid_axis(node.attributes.integer("axis", 0), first.rank(), "[net]")]);
      else if (i == 1 && (node.op == "SoftmaxCrossEntropyLoss" || node.op == "NegativeLogLikelihoodLoss"))
        limit(first[1]);
      else if (i == 0 && (node.op == "Reshape" || node.op == "Flatten" || node.op == "Cast" || node.op == "Squeeze" ||
                          node.op == "Unsqueeze" || node.op == "Transpose" || node.op == "Identity"))
        if (const Index behind = values_below(graph, specs, node.outputs[0])) limit(behind);
    }
  return least;
}

Tensor random_input(const Graph& graph, const Specs& specs, const GraphInput& input, uint64_t seed) {
  const Tensor tensor(input.spec.dtype, input.spec.shape);
  const Rng rng(seed, stream_of(input.name));
  if (is_float(input.spec.dtype)) {
    fill_normal(tensor, rng, 0, 1);
    return tensor;
  }
  const Index below = values_below(graph, specs, input.name);
  fill_integers(tensor, rng, 0, below > 0 ? below - 1 : 1);
  return tensor;
}

double longest_sum(const Graph& graph, const Specs& specs, Mode mode) {
  double terms = 1;
  for (const Node& node : graph.nodes) {
    const auto op = make_operator(node);
    const auto in = specs_of(specs, node.inputs);
    terms = std::max(terms, op->rounding(in, Pass::forward, 0).terms);
    if (mode == Mode::training)
      for (size_t i = 0; i < in.size(); ++i)
        if (in[i].present && is_float(in[i].dtype)) terms = std::max(terms, op->rounding(in, Pass::backward, i).terms);
  }
  return terms;
}

// Every element times 1 + delta, |delta| <= step.
Tensor moved(const Tensor& tensor, double step, const Rng& rng) {
  if (!is_float(tensor.dtype())) return tensor;
  const Tensor result = tensor.clone();
  const auto values = result.values<double>();
  for (size_t i = 0; i < values.size(); ++i) values[i] *= 1 + step * (2 * rng.uniform(i) - 1);
  return result;
}

using Results = std::vector<Tensor>;

class Oracle {
 public:
  Oracle(const Graph& graph, Mode mode) : graph_(with_float_type(graph, DType::f64)), mode_(mode) {
    CompileOptions options;
    options.mode = mode;
    backend_ = open_backend("reference");
    executable_ = backend_->compile(graph_, parameters_, options);
  }

  Results run(const NetProblem& problem, double step, uint64_t seed) {
    using Role = Executable::Role;
    const auto write = [&](Role role, const std::string& name, const Tensor& value) {
      const Tensor wide = is_float(value.dtype()) ? value.cast(DType::f64) : value;
      executable_->write(role, name, step > 0 ? moved(wide, step, Rng(seed, stream_of(name))) : wide);
    };
    for (const auto& [name, value] : problem.parameters) write(Role::value, name, value);
    for (const auto& [name, value] : problem.inputs) write(Role::value, name, value);
    for (const auto& [name, value] : problem.output_gradients) write(Role::gradient, name, value);
    executable_->forward({});
    if (mode_ == Mode::training) executable_->backward({});
    Results results;
    for (const NetExpected& e : problem.expected) results.push_back(executable_->read(e.role, e.value));
    return results;
  }

 private:
  Graph graph_;
  Mode mode_;
  ParameterSet parameters_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Executable> executable_;
};

double distance(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (Index i = 0; i < a.elements(); ++i) {
    const double difference = load_as_double(a.dtype(), a.data(), i) - load_as_double(b.dtype(), b.data(), i);
    sum += difference * difference;
  }
  return std::sqrt(sum);
}

double norm(const Tensor& a) {
  double sum = 0;
  for (const double value : a.values<double>()) sum += value * value;
  return std::sqrt(sum);
}

}  // namespace

NetProblem make_net_inputs(const Graph& graph, Mode mode, uint64_t seed) {
  NetProblem problem;
  for (auto& [name, value] : initial_values(graph, seed)) problem.parameters.emplace_back(name, std::move(value));
  const Specs specs = infer_specs(graph);
  for (const GraphInput& input : graph.inputs)
    if (!input.parameter) problem.inputs.emplace_back(input.name, random_input(graph, specs, input, seed));
  if (mode == Mode::inference) return problem;
  std::set<std::string> beside;  // statistics, which nothing is learned from
  for (const auto& [parameter, output] : running_updates(graph)) beside.insert(output);
  for (const std::string& name : graph.outputs) {
    const TensorSpec& spec = specs.at(name);
    if (!is_float(spec.dtype) || beside.contains(name)) continue;
    problem.output_gradients.emplace_back(name, Tensor(spec.dtype, spec.shape));
    fill_uniform(problem.output_gradients.back().second, Rng(seed), 1, 1);
  }
  return problem;
}

void add_expected(const Graph& graph, Mode mode, Math math, uint64_t seed, NetProblem& problem) {
  const Specs specs = infer_specs(graph);
  for (const std::string& name : graph.outputs)
    if (is_float(specs.at(name).dtype)) problem.expected.push_back({name, Executable::Role::value, {}, 0});
  if (mode == Mode::training)
    for (const GraphInput& input : graph.inputs)
      if (input.parameter && input.differentiable && is_float(input.spec.dtype))
        problem.expected.push_back({input.name, Executable::Role::gradient, {}, 0});

  const double terms = longest_sum(graph, specs, mode);
  double unit = 0;  // of the least exact type that takes part
  for (const GraphInput& input : graph.inputs)
    if (is_float(input.spec.dtype)) unit = std::max(unit, round_off(input.spec.dtype));
  // Products whose factors are rounded first, once a factor.
  const double of_products = math == Math::tf32 ? 0x1p-11 : math == Math::bf16 ? round_off(DType::bf16) : 0;
  const double step = std::min(terms, 6 * std::sqrt(terms)) * unit * (math == Math::winograd ? 81 : 1) + of_products;
  const std::string key = oracle_key(
      graph, fmt::format("{} step {} seed {}", mode == Mode::training ? "training" : "inference", step, seed));
  if (load_expected(key, problem)) return;
  Oracle oracle(graph, mode);
  const Results exact = oracle.run(problem, 0, seed), shaken = oracle.run(problem, step, seed + 1);
  constexpr double random_to_worst = 4;  // one draw of the perturbation against the largest of many
  for (size_t i = 0; i < exact.size(); ++i) {
    problem.expected[i].values = exact[i];
    problem.expected[i].tolerance = random_to_worst * distance(exact[i], shaken[i]) + 2 * unit * norm(exact[i]);
  }
  save_expected(key, problem);
}

NetProblem remembered(const NetProblem& like, Executable& executable) {
  NetProblem problem;
  for (const NetExpected& e : like.expected) {
    const Tensor now = executable.read(e.role, e.value).cast(DType::f64);
    const double size = norm(now), usual = norm(e.values);
    if (!std::isfinite(size)) throw Error("[net] {} is not finite", e.value);
    problem.expected.push_back({e.value, e.role, now, usual > 0 ? e.tolerance / usual * size : e.tolerance});
  }
  return problem;
}

void write_values(const NetProblem& problem, Executable& executable) {
  for (const auto& [name, value] : problem.parameters) executable.write(Executable::Role::value, name, value);
  for (const auto& [name, value] : problem.inputs) executable.write(Executable::Role::value, name, value);
  for (const auto& [name, value] : problem.output_gradients) executable.write(Executable::Role::gradient, name, value);
}

NetCheck check_network(const NetProblem& problem, Executable& executable) {
  NetCheck check;
  for (const NetExpected& e : problem.expected) {
    Tensor got = executable.read(e.role, e.value);
    if (got.shape().rank() > 0 && e.values.shape().rank() > 0 && got.shape()[0] > e.values.shape()[0])
      got = got.slice(0, e.values.shape()[0]);
    const auto fail = [&](const std::string& reason) {
      if (!check.passed) return;
      check.passed = false;
      check.reason =
          fmt::format("{}{}: {}", e.role == Executable::Role::gradient ? "gradient of " : "", e.value, reason);
    };
    if (!(got.shape() == e.values.shape())) {
      fail(fmt::format("it is {}, expected {}", to_string(got.shape()), to_string(e.values.shape())));
      continue;
    }
    double squares = 0;
    for (Index i = 0; i < got.elements(); ++i) {
      const double error = std::abs(load_as_double(got.dtype(), got.data(), i) - e.values.values<double>()[i]);
      check.l1 += error;
      squares += error * error;
      check.linf = std::isnan(error) ? INFINITY : std::max(check.linf, error);
    }
    check.compared += got.elements();
    check.l2 += squares;
    const double error = std::sqrt(squares);
    if (!(error <= e.tolerance))
      fail(fmt::format("its error is {:.3g} as a norm, at most {:.3g} is expected (the norm of the result is {:.3g})",
                       error, e.tolerance, norm(e.values)));
    if (e.tolerance > 0) check.worst_share = std::max(check.worst_share, error / e.tolerance);
  }
  check.l2 = std::sqrt(check.l2);
  return check;
}

}  // namespace d5
