// SPDX-License-Identifier: Apache-2.0
#include "d5/runner/foreign_case.hpp"

#include <algorithm>

#include "d5/core/parallel.hpp"

namespace d5 {
namespace {

const char* name(Math math) {
  switch (math) {
    case Math::tf32: return "tf32";
    case Math::bf16: return "bf16";
    case Math::winograd: return "winograd";
    default: return "strict";
  }
}

const char* pass(const CompileOptions& options, bool alone) {
  if (options.mode == Mode::inference) return "forward";
  return alone || options.backward_again ? "backward" : "step";
}

Json known_values(const Tensor& tensor) {
  Json values = Json::array();
  const Tensor wide = tensor.cast(is_float(tensor.dtype()) ? DType::f64 : DType::i64);
  if (is_float(tensor.dtype()))
    for (const double v : wide.values<double>()) values.push_back(v);
  else
    for (const int64_t v : wide.values<int64_t>()) values.push_back(v);
  return values;
}

Json describe(const std::string& value, const Specs& specs) {
  if (value.empty()) return nullptr;
  const TensorSpec& spec = specs.at(value);
  return {{"name", value}, {"dtype", d5::name(spec.dtype)}, {"shape", spec.shape.sizes()}};
}

Json describe(const GraphInput& input, const Specs& specs, const CompileOptions& options) {
  Json described = describe(input.name, specs);
  described["parameter"] = input.parameter;
  const bool wanted = input.parameter ? options.parameter_gradients : options.input_gradients;
  described["gradient"] =
      options.mode == Mode::training && wanted && input.differentiable && is_float(input.spec.dtype);
  if (input.spec.known) described["value"] = known_values(*input.spec.known);
  return described;
}

Json describe_operator(const Graph& graph, const Specs& specs, const CompileOptions& options) {
  const Node& node = graph.nodes.front();
  Json inputs = Json::array(), outputs = Json::array();
  for (const std::string& value : node.inputs) {
    const auto given = std::ranges::find(graph.inputs, value, &GraphInput::name);
    inputs.push_back(given == graph.inputs.end() ? describe(value, specs) : describe(*given, specs, options));
  }
  for (const std::string& value : node.outputs) outputs.push_back(describe(value, specs));
  return {{"kind", "op"},
          {"operator", node.op},
          {"attributes", to_json(node.attributes)},
          {"inputs", inputs},
          {"outputs", outputs}};
}

Json describe_network(const Graph& graph, const Specs& specs, const CompileOptions& options) {
  Json inputs = Json::array(), outputs = Json::array(), nodes = Json::array(), known = Json::object();
  // Real numbers are tensors as well: most operators want them so.
  const auto is_known = [&](const std::string& value) {
    return value.empty() || (specs.at(value).known && !is_float(specs.at(value).dtype));
  };
  for (const GraphInput& input : graph.inputs)
    if (!is_known(input.name)) {
      inputs.push_back(describe(input, specs, options));
      inputs.back().erase("value");
    }
  for (const auto& [value, tensor] : graph.constants)
    if (!is_known(value)) {
      inputs.push_back(describe(value, specs));
      inputs.back().update({{"parameter", false}, {"gradient", false}, {"constant", true}});
    }
  for (const Node& node : graph.nodes) {
    for (const std::string& value : node.inputs)
      if (!value.empty() && specs.at(value).known) {
        const Json values = known_values(*specs.at(value).known);
        known[value] = specs.at(value).shape.rank() == 0 ? values[0] : values;
      }
    if (std::ranges::all_of(node.outputs, is_known)) continue;
    nodes.push_back({{"operator", node.op},
                     {"name", node.name},
                     {"attributes", to_json(node.attributes)},
                     {"inputs", node.inputs},
                     {"outputs", node.outputs}});
  }
  for (const std::string& value : graph.outputs) outputs.push_back(describe(value, specs));
  return {{"kind", "net"}, {"nodes", nodes}, {"known", known}, {"inputs", inputs}, {"outputs", outputs}};
}

}  // namespace

Json describe_foreign_case(const std::string& backend, const Graph& graph, const CompileOptions& options) {
  // An operator alone has no step that is not backward alone; the network of one node in `d5 net` has.
  const bool alone = graph.nodes.size() == 1 && (options.mode == Mode::inference || options.input_gradients);
  const Specs specs = infer_specs(graph);
  Json described = alone ? describe_operator(graph, specs, options) : describe_network(graph, specs, options);
  described.update({{"backend", backend},
                    {"pass", pass(options, alone)},
                    {"threads", threads()},
                    {"device", options.device},
                    {"math", name(options.math)},
                    {"layout", options.layout == LayoutChoice::fast ? "fast" : "plain"},
                    {"reorders", options.time_reorders ? "timed" : "untimed"},
                    {"gradients", options.sparse_gradients ? "sparse" : "dense"},
                    {"deterministic", options.deterministic},
                    {"kernel", options.kernel}});
  return described;
}

std::optional<std::string> why_not_described(const Graph& graph) {
  for (const Node& node : graph.nodes)
    for (const auto& [attribute, value] : node.attributes.values())
      if (std::holds_alternative<std::shared_ptr<const Graph>>(value))
        return fmt::format("{} has an inner graph, which workers in other languages are not told", node.op);
  return {};
}

}  // namespace d5
