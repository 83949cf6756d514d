// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/net_case.hpp"

#include <algorithm>
#include <map>

#include "d5/graph/modernise.hpp"
#include "d5/graph/onnx/read.hpp"
#include "d5/graph/sizes.hpp"
#include "d5/graph/trainable.hpp"
#include "d5/graph/transform.hpp"
#include "d5/networks/form.hpp"
#include "d5/networks/loss.hpp"
#include "d5/networks/network.hpp"

namespace d5 {

const std::vector<CaseField>& network_fields() {
  static const std::vector<CaseField> fields{
      {"backend", "reference"},
      {"batch", 1},
      {"dtype", "f32", {"f32", "f64", "bf16", "f16"}},
      {"pass", "forward", {"forward", "backward", "step"}},
      {"threads", 1},
      {"device", "cpu"},
      {"environment", ""},
      {"math", "strict", {"strict", "tf32", "bf16", "winograd"}},
      {"layout", "fast", {"fast", "plain"}},
      {"transform", ""},
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

// The first axis of data inputs, where the file leaves it free.
void bind_batch(Graph& graph, Index samples) {
  std::map<std::string, Index> sizes;
  for (const GraphInput& input : graph.inputs) {
    if (input.parameter || input.spec.shape.rank() == 0) continue;
    if (!input.symbols.empty() && !input.symbols[0].empty())
      sizes[input.symbols[0]] = samples;
    else if (input.spec.shape[0] != samples)
      throw UsageError("[net] {}: batch is {}, but input '{}' has a first size of {} that cannot be changed",
                       graph.name, samples, input.name, input.spec.shape[0]);
  }
  bind_sizes(graph, sizes);
}

Graph untransformed(const Json& fields, std::optional<Index> batch) {
  const std::string network = fields.at("network");
  const Mode mode = net_compile_options(fields).mode;
  const Index samples = batch.value_or(fields.at("batch").get<Index>());
  if (is_file(network)) {
    Graph graph = modernise(read_onnx(network));
    bind_batch(graph, samples);
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
  std::string names = fields.at("transform");
  std::ranges::replace(names, '+', ',');
  return transformed(untransformed(fields, batch), names);
}

}  // namespace d5
