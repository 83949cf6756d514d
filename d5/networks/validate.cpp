// SPDX-License-Identifier: Apache-2.0
#include "d5/networks/validate.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "d5/core/convert.hpp"
#include "d5/core/rng.hpp"
#include "d5/networks/node_oracle.hpp"

namespace d5 {
namespace {

using Role = Executable::Role;
using Values = std::map<std::string, Tensor>;

DType compute_type(const Graph& graph) {
  for (const GraphInput& input : graph.inputs)
    if (input.parameter && (input.spec.dtype == DType::f16 || input.spec.dtype == DType::bf16)) return input.spec.dtype;
  return DType::f32;
}

void add(Wanted& sum, const Wanted& other, DType type) {
  for (size_t i = 0; i < sum.values.size(); ++i) {
    sum.values[i] += other.values[i];
    sum.tolerance[i] += other.tolerance[i] + round_off(type) * std::abs(sum.values[i]);
  }
}

class Validator {
 public:
  Validator(const Graph& graph, Backend& backend, const ValidateOptions& options)
      : graph_(graph), backend_(backend), options_(options), specs_(infer_specs(graph)) {}

  Validation run(const Values& given) {
    const Graph open = with_all_outputs(graph_);
    CompileOptions inference = options_.compile;
    inference.mode = Mode::inference;
    if (const auto reason = backend_.why_not(open, inference)) {
      result_.unsupported = *reason;
      return std::move(result_);
    }
    ParameterSet parameters(compute_type(graph_), backend_.memory(inference.device));
    const auto executable = backend_.compile(open, parameters, inference);
    for (const GraphInput& input : graph_.inputs) executable->write(Role::value, input.name, given.at(input.name));
    executable->forward({});
    values_ = graph_.constants;
    for (const GraphInput& input : graph_.inputs) values_[input.name] = given.at(input.name);
    for (const std::string& name : open.outputs) values_[name] = executable->read(Role::value, name);
    const bool narrow = !executable->narrow_arithmetic(Pass::forward).empty();
    const bool training = options_.compile.mode == Mode::training;
    const size_t all = graph_.nodes.size() * (training ? 2 : 1);
    size_t done = 0;
    for (const Node& node : graph_.nodes) {
      if (options_.progress) options_.progress(node, done++, all);
      check_forward(node, narrow);
    }
    if (!training) return std::move(result_);
    find_wanted();
    for (size_t n = graph_.nodes.size(); n-- > 0;) {
      if (options_.progress) options_.progress(graph_.nodes[n], done++, all);
      check_backward(graph_.nodes[n]);
    }
    return std::move(result_);
  }

 private:
  // Values behind which a parameter lies.
  void find_wanted() {
    for (const GraphInput& input : graph_.inputs)
      if (input.parameter && input.differentiable && is_float(input.spec.dtype)) wanted_.insert(input.name);
    for (const Node& node : graph_.nodes)
      if (std::ranges::any_of(node.inputs, [&](const std::string& name) { return wanted_.contains(name); }))
        for (const std::string& name : node.outputs)
          if (!name.empty() && is_float(specs_.at(name).dtype)) wanted_.insert(name);
    for (const Node& node : graph_.nodes) read_.insert(node.inputs.begin(), node.inputs.end());
  }

  Wanted expected(NodeOracle& oracle, size_t index, const Arithmetic& arithmetic) const {
    if (oracle.flops(arithmetic.pass) > options_.full_flops)
      if (auto some = oracle.some(index, arithmetic, options_.sample, options_.seed)) return std::move(*some);
    return oracle.all(index, arithmetic);
  }

  void check_forward(const Node& node, bool narrow) {
    NodeOracle oracle(node, specs_, values_);
    const Arithmetic arithmetic{Pass::forward, options_.compile.math, narrow};
    for (size_t i = 0; i < oracle.outputs().size(); ++i) {
      if (node.outputs[i].empty()) continue;
      judge(node, Pass::forward, node.outputs[i], values_.at(node.outputs[i]), expected(oracle, i, arithmetic));
    }
  }

  void check_backward(const Node& node) {
    std::vector<bool> wanted;
    for (const std::string& name : node.inputs) wanted.push_back(wanted_.contains(name));
    if (std::ranges::find(wanted, true) == wanted.end()) return;

    Graph alone{.name = node.name, .nodes = {node}};
    std::vector<Tensor> gradients;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const std::string& name = node.outputs[i];
      gradients.emplace_back();
      if (name.empty() || !is_float(specs_.at(name).dtype) || (i > 0 && !read_.contains(name))) continue;
      gradients.back() = Tensor(specs_.at(name).dtype, specs_.at(name).shape);
      fill_uniform(gradients.back(), Rng(options_.seed, stream_of("gradient of " + name)), -1, 1);
      alone.outputs.push_back(name);
    }
    add_inputs(alone, node, wanted);
    CompileOptions options = options_.compile;
    options.mode = Mode::training;
    options.input_gradients = options.parameter_gradients = true;
    if (const auto reason = backend_.why_not(alone, options)) {
      result_.checks.push_back(
          {.node = node.name, .op = node.op, .value = "", .pass = Pass::backward, .skipped = *reason});
      return;
    }
    ParameterSet parameters(compute_type(graph_), backend_.memory(options.device));
    const auto executable = backend_.compile(alone, parameters, options);
    for (const GraphInput& input : alone.inputs) executable->write(Role::value, input.name, values_.at(input.name));
    for (size_t i = 0; i < gradients.size(); ++i)
      if (gradients[i].present()) executable->write(Role::gradient, node.outputs[i], gradients[i]);
    executable->forward({});
    executable->backward({});

    NodeOracle oracle(node, specs_, values_);
    oracle.set_output_gradients(gradients, wanted);
    const Arithmetic arithmetic{Pass::backward, options_.compile.math,
                                !executable->narrow_arithmetic(Pass::backward).empty()};
    std::map<std::string, Wanted> sums;  // one that is read twice has the sum of both gradients
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!wanted[i]) continue;
      Wanted one = expected(oracle, i, arithmetic);
      if (const auto found = sums.find(node.inputs[i]); found != sums.end())
        add(found->second, one, specs_.at(node.inputs[i]).dtype);
      else
        sums.emplace(node.inputs[i], std::move(one));
    }
    for (const auto& [name, sum] : sums) judge(node, Pass::backward, name, executable->read(Role::gradient, name), sum);
  }

  // What the node reads: constants stay constants, so that what is known before the run is known here, too.
  void add_inputs(Graph& alone, const Node& node, const std::vector<bool>& wanted) const {
    std::set<std::string> seen{""};
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const std::string& name = node.inputs[i];
      if (!seen.insert(name).second) continue;
      const TensorSpec& spec = specs_.at(name);
      if (graph_.constants.contains(name) || spec.known) {
        alone.constants[name] = values_.at(name);
        continue;
      }
      const auto of_graph = std::ranges::find(graph_.inputs, name, &GraphInput::name);
      const bool parameter = of_graph != graph_.inputs.end() && of_graph->parameter;
      alone.inputs.push_back({.name = name, .spec = spec, .parameter = parameter, .differentiable = wanted[i]});
    }
  }

  void judge(const Node& node, Pass pass, const std::string& value, const Tensor& got, const Wanted& wanted) {
    NodeCheck check{.node = node.name, .op = node.op, .value = value, .pass = pass};
    check.compared = static_cast<Index>(wanted.values.size());
    Deviation& error = check.error;
    error.elements = got.elements();
    const Tensor map(DType::f64, got.shape());
    for (size_t i = 0; i < wanted.values.size(); ++i) {
      const Index at = wanted.at.empty() ? static_cast<Index>(i) : wanted.at[i];
      const double is = load_as_double(got.dtype(), got.data(), at), should = wanted.values[i];
      const bool both_nan = std::isnan(is) && std::isnan(should);
      double off = is == should || both_nan ? 0 : std::abs(is - should);
      if (std::isnan(off)) off = INFINITY;
      if (wanted.at.empty()) map.values<double>()[i] = off;
      error.l1 += off;
      error.l2 += off * off;
      error.linf = std::max(error.linf, off);
      error.largest = std::max(error.largest, std::abs(should));
      const double share = off == 0 ? 0 : off / wanted.tolerance[i];
      if (share <= check.worst_share) continue;
      check.worst_share = share;
      error.worst = at;
      if (!(share <= 1))
        check.reason =
            fmt::format("{}{}[{}] is {:.9g}, expected {:.9g} +- {:.2g}", pass == Pass::backward ? "gradient of " : "",
                        value, at, is, should, wanted.tolerance[i]);
    }
    error.l2 = std::sqrt(error.l2);
    if (options_.see)
      options_.see(check, {pass == Pass::backward ? "gradient of " + value : value, got, wanted.at, wanted.values,
                           wanted.tolerance});
    result_.checks.push_back(std::move(check));
    if (result_.checks.back().reason.empty() || result_.first) return;
    result_.first = result_.checks.size() - 1;
    if (wanted.at.empty()) result_.first_error = map;
  }

  const Graph& graph_;
  Backend& backend_;
  const ValidateOptions& options_;
  Specs specs_;
  Values values_;  // as the backend has them
  std::set<std::string> wanted_, read_;
  Validation result_;
};

}  // namespace

Graph with_all_outputs(Graph graph) {
  for (const Node& node : graph.nodes)
    for (const std::string& name : node.outputs)
      if (!name.empty() && std::ranges::find(graph.outputs, name) == graph.outputs.end()) graph.outputs.push_back(name);
  return graph;
}

Validation validate(const Graph& graph, const std::map<std::string, Tensor>& values, Backend& backend,
                    const ValidateOptions& options) {
  for (const GraphInput& input : graph.inputs)
    if (!values.contains(input.name)) throw Error("[validate] {}: no value for '{}' is given", graph.name, input.name);
  return Validator(graph, backend, options).run(values);
}

Deviation deviation(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || !(a.shape() == b.shape()))
    throw Error("[validate] {} and {} cannot be compared", to_string(TensorSpec{a.dtype(), a.shape()}),
                to_string(TensorSpec{b.dtype(), b.shape()}));
  Deviation result{.elements = a.elements()};
  for (Index i = 0; i < a.elements(); ++i) {
    const double x = load_as_double(a.dtype(), a.data(), i), y = load_as_double(b.dtype(), b.data(), i);
    result.largest = std::max(result.largest, std::abs(y));
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    const double off = std::isnan(x - y) ? INFINITY : std::abs(x - y);
    result.l1 += off;
    result.l2 += off * off;
    if (off > result.linf) {
      result.linf = off;
      result.worst = i;
    }
  }
  result.l2 = std::sqrt(result.l2);
  return result;
}

std::map<std::string, Deviation> compare_values(const Graph& graph, Executable& a, Executable& b) {
  std::map<std::string, Deviation> all;
  for (const std::string& name : graph.outputs)
    all[name] = deviation(a.read(Role::value, name), b.read(Role::value, name));
  return all;
}

Tensor heat_map(const Tensor& values, Index rows, Index columns) {
  const size_t rank = values.shape().rank();
  const Index width = rank < 1 ? 1 : values.shape()[rank - 1], height = rank < 2 ? 1 : values.shape()[rank - 2];
  rows = std::clamp<Index>(rows, 1, std::max<Index>(1, height));
  columns = std::clamp<Index>(columns, 1, std::max<Index>(1, width));
  const Tensor map(DType::f64, {rows, columns});
  const auto cells = map.values<double>();
  std::ranges::fill(cells, 0.0);
  for (Index i = 0; i < values.elements(); ++i) {
    const Index y = i / width % height, x = i % width;
    double& cell = cells[static_cast<size_t>(y * rows / height * columns + x * columns / width)];
    cell = std::max(cell, std::abs(load_as_double(values.dtype(), values.data(), i)));
  }
  return map;
}

}  // namespace d5
