// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/net_problem.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "d5/core/convert.hpp"
#include "d5/core/rng.hpp"
#include "d5/graph/gradients.hpp"
#include "d5/measure/error_norms.hpp"
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
      const auto spec = specs.find(node.inputs[0]);
      if (spec == specs.end()) continue;
      const Shape& first = spec->second.shape;
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
  // Where a sample is hidden as a whole, the rounding of its scores, all of them the lowest number, decides everything.
  const bool shows = below == 0 && is_integer(input.spec.dtype) && input.name.find("mask") != std::string::npos;
  fill_integers(tensor, rng, shows ? 1 : 0, below > 0 ? below - 1 : 1);
  return tensor;
}

Index not_finite(const Tensor& tensor) {
  return std::ranges::count_if(tensor.values<double>(), [](double value) { return !std::isfinite(value); });
}

}  // namespace

std::optional<std::string> why_no_inputs(const Graph& graph) {
  for (const GraphInput& input : graph.inputs) {
    const auto reason = [&](const char* what) {
      return fmt::format("[net] values of input '{}' cannot be made: {}", input.name, what);
    };
    if (input.kind != ValueKind::tensor) return reason("it is no tensor");
    if (input.spec.dtype == DType::string) return reason("it holds strings");
    if (input.symbols.size() == 1 && input.symbols[0] == "*") return reason("its rank is not given");
  }
  return {};
}

NetProblem make_net_inputs(const Graph& graph, Mode mode, uint64_t seed) {
  NetProblem problem;
  for (auto& [name, value] : initial_values(graph, seed)) problem.parameters.emplace_back(name, std::move(value));
  const Specs specs = infer_some_specs(graph).specs;
  for (const GraphInput& input : graph.inputs)
    if (!input.parameter) problem.inputs.emplace_back(input.name, random_input(graph, specs, input, seed));
  if (mode == Mode::inference) return problem;
  const GradientFlow flow = find_gradients(graph, specs, [](const GraphInput& input) { return input.parameter; });
  std::set<std::string> beside;  // statistics, which nothing is learned from
  for (const auto& [parameter, output] : running_updates(graph)) beside.insert(output);
  for (const std::string& name : graph.outputs) {
    const TensorSpec& spec = specs.at(name);
    if (!flow.has(name) || beside.contains(name)) continue;
    problem.output_gradients.emplace_back(name, Tensor(spec.dtype, spec.shape));
    fill_uniform(problem.output_gradients.back().second, Rng(seed), 1, 1);
  }
  return problem;
}

double finite_norm(const Tensor& tensor) {
  double sum = 0;
  for (const double value : tensor.values<double>())
    if (std::isfinite(value)) sum += value * value;
  return std::sqrt(sum);
}

// 64 bits do not fit into a double, so bytes are compared.
Index differing(const Tensor& a, const Tensor& b) {
  const auto width = static_cast<size_t>(bits(a.dtype())) / 8;
  Index count = 0;
  for (Index i = 0; i < a.elements(); ++i)
    count += width > 0 ? std::memcmp(static_cast<const char*>(a.data()) + static_cast<size_t>(i) * width,
                                     static_cast<const char*>(b.data()) + static_cast<size_t>(i) * width, width) != 0
                       : load_as_double(a.dtype(), a.data(), i) != load_as_double(b.dtype(), b.data(), i);
  return count;
}

NetProblem remembered(const NetProblem& like, Executable& executable) {
  NetProblem problem;
  for (const NetExpected& e : like.expected) {
    const Tensor read = executable.read(e.role, e.value);
    NetExpected now{e.value, e.role, read, e.tolerance};
    if (is_float(read.dtype())) {
      now.values = read.cast(DType::f64);
      if (not_finite(now.values) > 0 && not_finite(e.values) == 0) throw Error("[net] {} is not finite", e.value);
      if (const double usual = finite_norm(e.values); usual > 0) now.tolerance *= finite_norm(now.values) / usual;
    } else if (e.values.elements() > 0) {
      now.tolerance *= static_cast<double>(read.elements()) / static_cast<double>(e.values.elements());
    }
    problem.expected.push_back(std::move(now));
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
    const std::string what = (e.role == Executable::Role::gradient ? "gradient of " : "") + e.value;
    const auto fail = [&](const std::string& reason) {
      if (check.passed) check.reason = what + ": " + reason;
      check.passed = false;
    };
    const bool has_rounding = is_float(e.values.dtype());
    if (!(got.shape() == e.values.shape()) || (!has_rounding && got.dtype() != e.values.dtype())) {
      fail(fmt::format("it is {}, expected {}", to_string(TensorSpec{got.dtype(), got.shape()}),
                       to_string(TensorSpec{e.values.dtype(), e.values.shape()})));
      continue;
    }
    check.compared += got.elements();
    if (!has_rounding) {
      const Index differ = differing(got, e.values);
      check.integers += got.elements();
      check.integers_off += differ;
      check.integers_may_be_off += e.tolerance;
      check.powerless &= e.tolerance >= 0.1 * static_cast<double>(got.elements());
      if (!(static_cast<double>(differ) <= e.tolerance))
        fail(fmt::format("{} of {} integers differ, at most {:.0f} may by rounding", differ, got.elements(),
                         e.tolerance));
      continue;
    }
    const ErrorNorms error = error_norms(e.values.values<double>(), got.cast(DType::f64).values<double>());
    check.l1 += error.l1;
    check.linf = std::max(check.linf, error.linf);
    check.l2 += error.l2 * error.l2;
    const double size = finite_norm(e.values);
    check.powerless &= e.tolerance >= 0.1 * size;
    if (const Index count = not_finite(e.values); count > 0 && check.not_finite.empty())
      check.not_finite =
          fmt::format("{} of {} values of {} are not finite, by the oracle, too", count, e.values.elements(), what);
    if (!(error.l2 <= e.tolerance))
      fail(fmt::format("its error is {:.3g} as a norm, at most {:.3g} is expected (the norm of the result is {:.3g})",
                       error.l2, e.tolerance, size));
    if (e.tolerance > 0) check.worst_share = std::max(check.worst_share, error.l2 / e.tolerance);
  }
  check.l2 = std::sqrt(check.l2);
  return check;
}

}  // namespace d5
