// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/net_case.hpp"

#include <algorithm>

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

std::vector<Parameter> own_parameters(const std::string& network) { return registered<networks>(network).parameters; }

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
  options.fallback = fields.at("fallback") == "reference" ? Fallback::reference : Fallback::error;
  return options;
}

namespace {

Graph untransformed(const Json& fields, std::optional<Index> batch) {
  const std::string network = fields.at("network");
  const Mode mode = net_compile_options(fields).mode;
  const Index samples = batch.value_or(fields.at("batch").get<Index>());
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
