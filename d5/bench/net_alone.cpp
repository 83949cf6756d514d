// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/net_alone.hpp"

#include <algorithm>
#include <optional>

#include "d5/core/rng.hpp"
#include "d5/measure/interquartile_mean.hpp"
#include "d5/measure/quantile.hpp"

namespace d5 {
namespace {

using Role = Executable::Role;

constexpr double hot_seconds = 0.1, cold_seconds = 0.3;  // for the samples of one kind of nodes
constexpr size_t fewest = 7, most_hot = 100, most_cold = 30;

}  // namespace

std::vector<size_t> nodes_shown_as(const Graph& graph, const std::string& shown) {
  std::vector<size_t> found;
  std::string rest = shown;
  while (true) {
    std::optional<size_t> longest;  // names may have a '+' of their own
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      const std::string& name = graph.nodes[n].name;
      if (rest != name && !rest.starts_with(name + "+")) continue;
      if (!longest || name.size() > graph.nodes[*longest].name.size()) longest = n;
    }
    if (!longest) return {};
    found.push_back(*longest);
    const size_t length = graph.nodes[*longest].name.size();
    if (rest.size() == length) break;
    rest = rest.substr(length + 1);
  }
  std::ranges::sort(found);
  return found;
}

AloneTimer::AloneTimer(NetRun& net, const std::set<size_t>& nodes)
    : net_(net), specs_(infer_specs(net.graph())), timer_(calibrate_timer()) {
  const Graph& graph = net_.graph();
  const NetProblem inputs = make_net_inputs(graph, net_.options().mode, net_.fields().at("seed").get<uint64_t>());
  values_ = graph.constants;
  values_.insert(inputs.parameters.begin(), inputs.parameters.end());
  values_.insert(inputs.inputs.begin(), inputs.inputs.end());

  for (const GraphInput& input : graph.inputs)
    if (input.parameter && input.differentiable && is_float(input.spec.dtype)) wanted_.insert(input.name);
  for (const Node& node : graph.nodes)
    if (std::ranges::any_of(node.inputs, [&](const std::string& name) { return wanted_.contains(name); }))
      for (const std::string& name : node.outputs)
        if (!name.empty() && is_float(specs_.at(name).dtype)) wanted_.insert(name);

  Graph open = graph;  // the same network, which gives what the nodes read
  for (const size_t n : nodes)
    for (const std::string& name : graph.nodes[n].inputs)
      if (!name.empty() && !values_.contains(name) && std::ranges::find(open.outputs, name) == open.outputs.end())
        open.outputs.push_back(name);
  CompileOptions options = net_.options();
  options.mode = Mode::inference;
  options.memory_limit = 0;
  if (const auto reason = net_.backend().why_not(open, options))
    throw Error("[context] the values between operators cannot be read: {}", *reason);
  ParameterSet parameters(net_.compute_type(), net_.backend().memory(options.device));
  const auto executable = net_.backend().compile(open, parameters, options);
  write_values({.parameters = inputs.parameters, .inputs = inputs.inputs}, *executable);
  executable->forward({});
  net_.backend().synchronize();
  for (const std::string& name : open.outputs)
    if (!values_.contains(name)) values_[name] = executable->read(Role::value, name);

  device_ = net_.backend().probe(options.device);
  if (!device_) flusher_ = std::make_unique<CacheFlusher>();
}

// Constants stay constants, so that what is known before the run is known here, too.
Graph AloneTimer::taken_out(const std::vector<size_t>& nodes) const {
  const Graph& graph = net_.graph();
  Graph alone{.name = graph.nodes[nodes.front()].name};
  std::set<std::string> made, read_inside, read_outside, seen{""};
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const bool inside = std::ranges::find(nodes, n) != nodes.end();
    for (const std::string& name : graph.nodes[n].inputs) (inside ? read_inside : read_outside).insert(name);
  }
  for (const size_t n : nodes) {
    const Node& node = graph.nodes[n];
    alone.nodes.push_back(node);
    for (const std::string& name : node.inputs) {
      if (made.contains(name) || !seen.insert(name).second) continue;
      const TensorSpec& spec = specs_.at(name);
      if (spec.known || graph.constants.contains(name)) {
        alone.constants[name] = spec.known ? *spec.known : graph.constants.at(name);
        continue;
      }
      const auto input = std::ranges::find(graph.inputs, name, &GraphInput::name);
      alone.inputs.push_back({.name = name,
                              .spec = spec,
                              .parameter = input != graph.inputs.end() && input->parameter,
                              .differentiable = wants_gradient(name)});
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const std::string& name = node.outputs[i];
      made.insert(name);
      const bool used = read_outside.contains(name) || (i == 0 && !read_inside.contains(name));
      if (!name.empty() && used) alone.outputs.push_back(name);
    }
  }
  return alone;
}

AloneTimes AloneTimer::time(const std::vector<size_t>& nodes, Pass pass) {
  const Graph alone = taken_out(nodes);
  CompileOptions options = net_.options();
  if (std::ranges::none_of(alone.inputs, &GraphInput::differentiable)) options.mode = Mode::inference;
  options.input_gradients = options.mode == Mode::training;
  options.backward_again = pass == Pass::backward;
  options.memory_limit = options.recompute_above = 0;
  if (const auto reason = net_.backend().why_not(alone, options)) return {.why_not = *reason};
  ParameterSet parameters(net_.compute_type(), net_.backend().memory(options.device));
  const auto executable = net_.backend().compile(alone, parameters, options);
  for (const GraphInput& input : alone.inputs) executable->write(Role::value, input.name, values_.at(input.name));
  if (options.mode == Mode::training)
    for (const std::string& name : alone.outputs) {
      const TensorSpec& spec = specs_.at(name);
      if (!is_float(spec.dtype) || !wants_gradient(name)) continue;
      const Tensor gradient(spec.dtype, spec.shape);
      fill_uniform(gradient, Rng(1, stream_of("gradient of " + name)), -1, 1);
      executable->write(Role::gradient, name, gradient);
    }
  executable->forward({});
  const std::function<void()> run = [&] {
    if (pass == Pass::forward)
      executable->forward({});
    else
      executable->backward({});
  };
  AloneTimes times;
  time_hot(run, times);
  time_cold(run, times);
  return times;
}

double AloneTimer::seconds(const std::function<void()>& run, int64_t times) {
  const Mark begin = net_.backend().mark();
  for (int64_t i = 0; i < times; ++i) run();
  const Mark end = net_.backend().mark();
  return net_.backend().seconds(begin, end) / static_cast<double>(times);
}

void AloneTimer::time_hot(const std::function<void()>& run, AloneTimes& times) {
  std::vector<double> warm;
  for (int i = 0; i < 5; ++i) warm.push_back(seconds(run, 1));
  const int64_t batch = iterations_per_sample(std::max(1e-9, median(warm)), 0.01, timer_);
  std::vector<double> samples;
  const double begin = now_seconds();
  while (samples.size() < fewest || (samples.size() < most_hot && now_seconds() - begin < hot_seconds))
    samples.push_back(seconds(run, batch));
  times.hot_samples = samples.size();
  times.hot_s = interquartile_mean(samples);
}

void AloneTimer::time_cold(const std::function<void()>& run, AloneTimes& times) {
  std::vector<double> samples;
  const double begin = now_seconds();
  while (samples.size() < fewest || (samples.size() < most_cold && now_seconds() - begin < cold_seconds)) {
    device_ ? device_->flush() : flusher_->flush();
    net_.backend().synchronize();
    samples.push_back(seconds(run, 1));
  }
  times.cold_samples = samples.size();
  times.cold_s = interquartile_mean(samples);
}

}  // namespace d5
