// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/net_case.hpp"

#include <algorithm>
#include <map>

#include "d5/graph/modernise.hpp"
#include "d5/graph/onnx/read.hpp"
#include "d5/graph/sizes.hpp"
#include "d5/graph/trainable.hpp"
#include "d5/networks/form.hpp"
#include "d5/networks/loss.hpp"
#include "d5/networks/network.hpp"

namespace d5 {

const std::vector<CaseField>& network_fields() {
  static const std::vector<CaseField> fields{
      {"backend", "reference"},
      {"batch", 1},
      {"sizes", ""},
      {"dtype", "f32", {"f32", "f64", "bf16", "f16"}},
      {"pass", "forward", {"forward", "backward", "step"}},
      {"threads", 1},
      {"device", "cpu"},
      {"environment", ""},
      {"math", "strict", {"strict", "tf32", "bf16", "winograd"}},
      {"layout", "fast", {"fast", "plain"}},
      {"transform", ""},
      {"kernel", "builtin"},
      {"arena_limit", 0.0},
      {"cache", "hot", {"hot", "cold"}},
      {"deterministic", false},
      {"fallback", "error", {"error", "reference"}},
      {"seed", 1},
  };
  return fields;
}

bool is_file(const std::string& network) { return network.ends_with(".onnx"); }

std::vector<Parameter> own_parameters(const std::string& network) {
  return is_file(network) ? std::vector<Parameter>{} : registered<networks>(network).parameters;
}

NetPass net_pass(const Json& fields) {
  const std::string pass = fields.at("pass");
  return pass == "forward" ? NetPass::forward : pass == "backward" ? NetPass::backward : NetPass::step;
}

CompileOptions net_compile_options(const Json& fields) {
  CompileOptions options;
  const Execution execution = net_execution(fields);
  options.kernel = fields.at("kernel");
  options.fuse = execution.fuse;
  if (execution.tile_cache) options.tile_cache = *execution.tile_cache;
  options.gradients_in_set = execution.split;  // they are added up there; else nobody reads the set at this level
  options.memory_limit = static_cast<size_t>(fields.at("arena_limit").get<double>() * (1 << 20));
  // Where neither says how much, as little as can be.
  if (execution.recompute)
    options.recompute_above = execution.recompute_bytes > 0 ? execution.recompute_bytes
                              : options.memory_limit > 0    ? options.memory_limit
                                                            : 1;
  options.mode = net_pass(fields) == NetPass::forward ? Mode::inference : Mode::training;
  options.math = parse_math(fields.at("math").get<std::string>());
  options.layout = parse_layout(fields.at("layout").get<std::string>());
  options.deterministic = fields.at("deterministic");
  options.device = fields.at("device");
  options.backward_again = net_pass(fields) == NetPass::backward;
  options.fallback = fields.at("fallback") == "reference" ? Fallback::reference : Fallback::error;
  return options;
}

namespace {

std::string transforms_of(const Json& fields) {
  std::string names = fields.at("transform");
  std::ranges::replace(names, '+', ',');
  return names;
}

// Without those that change the batch.
std::string without_batch(const std::string& names) {
  std::string rest;
  for (size_t begin = 0; begin < names.size();) {
    const size_t end = std::min(names.find(',', begin), names.size());
    const std::string one = names.substr(begin, end - begin);
    if (!one.starts_with("batch:")) rest += (rest.empty() ? "" : ",") + one;
    begin = end + 1;
  }
  return rest;
}

Graph untransformed(const Json& fields, std::optional<Index> batch) {
  const std::string network = fields.at("network");
  const Mode mode = net_compile_options(fields).mode;
  const Index samples = batch.value_or(fields.at("batch").get<Index>());
  if (is_file(network)) {
    Graph graph = modernise(read_onnx(network));
    fix_sizes(graph, parse_sizes(fields.at("sizes").get<std::string>()));
    const bool is_default = samples == 1 && batch_sizes(graph).empty();  // as large as the file says
    if (!is_default) bind_batch(graph, samples);
    if (mode == Mode::inference) return inference_form(std::move(graph));
    graph = training_form(std::move(graph));
    make_trainable(graph);
    return graph;
  }
  Json own = Json::object();
  for (const Parameter& parameter : own_parameters(network))
    if (fields.contains(parameter.name)) own[parameter.name] = fields[parameter.name];
  Graph graph = build_network(network, attributes_from_json(own), samples,
                              parse_dtype(fields.at("dtype").get<std::string>()), mode);
  const std::string loss = registered<networks>(network).loss;
  return mode == Mode::training && !loss.empty() ? with_loss(std::move(graph), loss) : graph;
}

}  // namespace

Graph network_of(const Json& fields, std::optional<Index> batch) {
  const std::string names = transforms_of(fields);
  return transformed(untransformed(fields, batch), batch ? without_batch(names) : names);
}

Execution net_execution(const Json& fields) { return execution_of(transforms_of(fields)); }

Index samples_of(const Graph& graph) {
  const bool has_free = !batch_sizes(graph).empty();
  for (const GraphInput& input : graph.inputs)
    if (!input.parameter && input.spec.shape.rank() > 0)
      if (!has_free || (!input.symbols.empty() && !input.symbols[0].empty())) return input.spec.shape[0];
  return 1;
}

std::vector<std::string> warnings_of_sizes(const Graph& graph, const Json& fields) {
  if (!is_file(fields.at("network"))) return {};
  std::vector<std::string> warnings;
  const std::set<std::string> batch = batch_sizes(graph);
  if (const auto samples = fields.at("batch").get<Index>(); batch.empty() && samples_of(graph) != samples)
    warnings.push_back(
        fmt::format("the batch of the file cannot be changed: a step has {} samples", samples_of(graph)));
  std::string left;
  for (const std::string& name : free_sizes(graph))
    if (!batch.contains(name)) left += (left.empty() ? "" : ", ") + name;
  if (!left.empty()) warnings.push_back(fmt::format("free sizes that are 1 because --sizes leaves them out: {}", left));
  return warnings;
}

}  // namespace d5
