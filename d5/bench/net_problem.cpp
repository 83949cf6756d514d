// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/net_problem.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "d5/bench/net_oracle_cache.hpp"
#include "d5/bench/oracle.hpp"
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

// Moves what each node has computed, up to the error that its kernel may make.
class Shaker final : public Observer {
 public:
  using Role = Executable::Role;

  Shaker(const Graph& graph, Executable& executable, double unit) : unit_(unit), specs_(infer_specs(graph)) {
    for (const auto& [name, spec] : specs_)
      for (const Role role : {Role::value, Role::gradient}) try {
          if (role == Role::value || is_float(spec.dtype)) views_[{role, name}] = executable.view(role, name);
        } catch (const Error&) {  // nobody asked for its gradient
        }
  }

  void draw(uint64_t seed) { seed_ = seed; }

  void node_end(const Node& node, Pass pass) override {
    const bool forward = pass == Pass::forward;
    const auto& names = forward ? node.outputs : node.inputs;
    const std::vector<Tensor>& errors = errors_of(node, pass);
    for (size_t i = 0; i < names.size(); ++i) {
      if (!errors[i].present()) continue;
      const auto values = view(forward ? Role::value : Role::gradient, names[i]).values<double>();
      const auto error = errors[i].values<double>();
      const Rng rng(seed_, stream_of(fmt::format("{} {} {}", node.name, forward, i)));
      for (size_t k = 0; k < values.size(); ++k) values[k] += error[k] * (2 * rng.uniform(k) - 1);
    }
  }

 private:
  Tensor view(Role role, const std::string& name) const {
    const auto found = views_.find({role, name});
    return found == views_.end() ? Tensor() : found->second;
  }

  // By output or input: the bound of operators/operator.hpp; absent where there is nothing to move.
  const std::vector<Tensor>& errors_of(const Node& node, Pass pass) {
    const auto [entry, is_new] = errors_.try_emplace({&node, pass});
    if (!is_new) return entry->second;
    const auto op = make_operator(node);
    const ProblemOptions options{.pass = pass};
    Oracle o{node.op, *op, options, specs_of(specs_, node.inputs), specs_of(specs_, node.outputs), {}, {}};
    for (const std::string& name : node.inputs) {
      o.context.inputs.push_back(view(Role::value, name));
      o.wanted.push_back(pass == Pass::backward && view(Role::gradient, name).present());
    }
    for (const std::string& name : node.outputs) o.context.output_gradients.push_back(view(Role::gradient, name));
    run_loops(o, o.context);
    std::optional<Context> of_absolutes;
    for (size_t i = 0; i < o.results(); ++i) {
      entry->second.emplace_back();
      const bool moves = o.result(i).present && is_float(o.result(i).dtype) && o.is_wanted(i);
      if (!moves) continue;
      const Rounding rounding = op->rounding(o.in, pass, i);
      const double relative = (std::min(rounding.terms, 6 * std::sqrt(rounding.terms)) + rounding.units) * unit_;
      entry->second.back() = error_scale(o, i, of_absolutes).clone();
      for (double& scale : entry->second.back().values<double>()) scale = relative * std::abs(scale);
    }
    return entry->second;
  }

  double unit_;
  uint64_t seed_ = 0;
  Specs specs_;
  std::map<std::pair<Role, std::string>, Tensor> views_;
  std::map<std::pair<const Node*, Pass>, std::vector<Tensor>> errors_;
};

using Results = std::vector<Tensor>;

class NetOracle {
 public:
  NetOracle(const Graph& graph, Mode mode) : graph_(with_float_type(graph, DType::f64)), mode_(mode) {
    CompileOptions options;
    options.mode = mode;
    options.keep_all = true;
    backend_ = open_backend("reference");
    executable_ = backend_->compile(graph_, parameters_, options);
  }

  // Factors of products are moved by up to `of_products` of themselves.
  Results run(const NetProblem& problem, Shaker* shaker = nullptr, double of_products = 0, uint64_t seed = 0) {
    using Role = Executable::Role;
    const auto write = [&](Role role, const std::string& name, const Tensor& value) {
      if (!is_float(value.dtype())) return executable_->write(role, name, value);
      const Tensor wide = value.cast(DType::f64);
      const Rng rng(seed, stream_of(name));
      if (of_products > 0)
        for (Index i = 0; i < wide.elements(); ++i)
          wide.values<double>()[i] *= 1 + of_products * (2 * rng.uniform(i) - 1);
      executable_->write(role, name, wide);
    };
    if (shaker) shaker->draw(seed);
    for (const auto& [name, value] : problem.parameters) write(Role::value, name, value);
    for (const auto& [name, value] : problem.inputs) write(Role::value, name, value);
    for (const auto& [name, value] : problem.output_gradients) write(Role::gradient, name, value);
    executable_->forward({.observer = shaker});
    if (mode_ == Mode::training) executable_->backward({.observer = shaker});
    Results results;
    for (const NetExpected& e : problem.expected) results.push_back(executable_->read(e.role, e.value));
    return results;
  }

  const Graph& graph() const { return graph_; }
  Executable& executable() { return *executable_; }

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

  double unit = 0;  // of the least exact type that takes part
  for (const GraphInput& input : graph.inputs)
    if (is_float(input.spec.dtype)) unit = std::max(unit, round_off(input.spec.dtype));
  // Winograd's transforms enlarge rounding (bench/oracle.cpp); coarser arithmetic rounds the factors of products.
  const double computed = unit * (math == Math::winograd ? 81 : 1);
  const double of_products = math == Math::tf32 ? 0x1p-11 : math == Math::bf16 ? round_off(DType::bf16) : 0;
  const std::string key =
      oracle_key(graph, fmt::format("{} unit {} {} seed {}", mode == Mode::training ? "training" : "inference",
                                    computed, of_products, seed));
  if (load_expected(key, problem)) return;
  NetOracle oracle(graph, mode);
  const Results exact = oracle.run(problem);
  Shaker shaker(oracle.graph(), oracle.executable(), computed + of_products);
  // The bound of a node is six standard deviations of its error, and what is drawn from all of it has a deviation of
  // 6 / sqrt(3) = 3.5 of those. So the mean square of four draws, which for a scalar is within a factor of two of the
  // true one 19 times in 20, leaves seven deviations of a kernel's error, in such a case still 3.5.
  constexpr int draws = 4;
  constexpr double safety = 2;
  std::vector<double> squares(exact.size());
  for (int draw = 1; draw <= draws; ++draw) {
    const Results shaken = oracle.run(problem, &shaker, of_products, seed + static_cast<uint64_t>(draw));
    for (size_t i = 0; i < exact.size(); ++i) squares[i] += std::pow(distance(exact[i], shaken[i]), 2) / draws;
  }
  for (size_t i = 0; i < exact.size(); ++i) {
    problem.expected[i].values = exact[i];
    problem.expected[i].tolerance = safety * std::sqrt(squares[i]) + 2 * unit * norm(exact[i]);
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
  check.powerless = true;
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
    check.powerless &= e.tolerance >= 0.1 * norm(e.values);
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
