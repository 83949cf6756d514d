// SPDX-License-Identifier: Apache-2.0
#include "d5/graph/evaluate.hpp"

#include <algorithm>

#include "d5/graph/edit.hpp"
#include "d5/operators/known.hpp"

namespace d5 {
namespace {

// As the operators compute: floats in double. The same tensor where nothing is to be converted.
Tensor widened(const Tensor& tensor) {
  if (!tensor.present() || compute_dtype(tensor.dtype()) == tensor.dtype()) return tensor;
  return tensor.cast(compute_dtype(tensor.dtype()));
}

std::string place_of(const Graph& graph, const Node& node) {
  return fmt::format("[graph] {}: node '{}' ({})", graph.name, node.name, node.op);
}

bool has_body(const Node& node) {
  return std::ranges::any_of(node.attributes.values(), [](const auto& one) {
    return std::holds_alternative<std::shared_ptr<const Graph>>(one.second);
  });
}

template <class F>
void for_each_node(const Graph& graph, F&& f) {
  for (const Node& node : graph.nodes) {
    f(node);
    for (const auto& [name, value] : node.attributes.values())
      if (const auto* body = std::get_if<std::shared_ptr<const Graph>>(&value)) for_each_node(**body, f);
  }
}

}  // namespace

ValueFunction find_value_function(const std::string& op) {
  for (const auto& rows : {control_flow_functions(), sequence_functions()})
    for (const ValueFunctionRow& row : rows)
      if (op == row.op) return row.run;
  return nullptr;
}

std::optional<std::string> unknown_operator(const Graph& graph) {
  std::optional<std::string> reason;
  for_each_node(graph, [&](const Node& node) {
    if (!reason && !find_registered<operators>(node.op) && !find_value_function(node.op))
      reason = fmt::format("operator {} is not supported", node.op);
  });
  return reason;
}

std::optional<std::string> needs_evaluation(const Graph& graph) {
  for (const GraphInput& input : graph.inputs) {
    if (input.kind != ValueKind::tensor) return fmt::format("input '{}' is no tensor", input.name);
    if (input.spec.dtype == DType::string) return fmt::format("input '{}' holds strings", input.name);
    if (input.symbols.size() == 1 && input.symbols[0] == "*")
      return fmt::format("the rank of input '{}' is not given", input.name);
  }
  for (const auto& [name, tensor] : graph.constants)
    if (tensor.dtype() == DType::string) return fmt::format("constant '{}' holds strings", name);
  for (const Node& node : graph.nodes)
    if (has_body(node) || !find_registered<operators>(node.op))
      return fmt::format("{} is run by evaluation alone", node.op);
  return {};
}

std::optional<std::string> why_evaluated(const Graph& graph) {
  if (auto reason = needs_evaluation(graph)) return reason;
  try {
    for (const auto& [name, spec] : infer_specs(graph))
      if (spec.dtype == DType::string) return fmt::format("'{}' holds strings", name);
  } catch (const UnknownValue& error) {
    return error.what();
  } catch (const Error&) {  // wrong in any case: whoever plans it says why
  }
  return {};
}

GraphValue ValueScope::find(const std::string& name) const {
  for (const ValueScope* scope = this; scope; scope = scope->outer) {
    if (const auto found = scope->values.find(name); found != scope->values.end()) return found->second;
    if (!scope->graph) continue;
    if (const auto found = scope->graph->constants.find(name); found != scope->graph->constants.end())
      return found->second;
  }
  throw Error("value '{}' is used but nobody makes it", name);
}

const GraphValue& ValueCall::input(size_t i) const {
  if (!has(i)) throw Error("input {} is missing", i);
  return inputs[i];
}

const Graph& ValueCall::body(const char* attribute) const {
  const auto found = node.attributes.graph(attribute);
  if (!found) throw Error("it has no {}", attribute);
  return *found;
}

std::vector<Tensor> evaluate_node(const Node& node, const Operator& op, const std::vector<Tensor>& inputs,
                                  const EvaluateOptions& options) {
  const std::vector<TensorSpec> made = [&] {
    try {
      return op.infer(known_specs(inputs));
    } catch (const Error& error) {
      throw CannotRun(error.what());
    }
  }();
  if (made.size() < node.outputs.size())
    throw Error("{} outputs are asked for; it makes {}", node.outputs.size(), made.size());
  Context context;
  context.position = options.position;
  for (const Tensor& input : inputs) {
    context.inputs.push_back(widened(input));
    context.input_types.push_back(input.dtype());
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const DType type = compute_dtype(made[i].dtype);
    if (static_cast<size_t>(storage_bytes(type, made[i].elements())) > options.most_bytes)
      throw Error("a result of {} does not fit into {} bytes", to_string(made[i]), options.most_bytes);
    context.outputs.push_back(node.outputs[i].empty() ? Tensor() : Tensor(type, made[i].shape));
  }
  op.forward(context);
  std::vector<Tensor> results;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const Tensor& wide = context.outputs[i];
    results.push_back(!wide.present() || wide.dtype() == made[i].dtype ? wide : wide.cast(made[i].dtype));
  }
  return results;
}

Evaluator::Evaluator(const Graph& graph, EvaluateOptions options) : graph_(graph), options_(std::move(options)) {
  if (const auto reason = unknown_operator(graph)) throw CannotRun("[graph] {}: {}", graph.name, *reason);
}

void Evaluator::count_iteration() {
  if (iterations_++ == options_.most_iterations)
    throw CannotRun("more than {} iterations of all loops", options_.most_iterations);
}

void Evaluator::count_entries(size_t count) {
  entries_ += static_cast<int64_t>(count);
  if (entries_ > options_.most_entries)
    throw Error("more than {} entries of sequences are copied", options_.most_entries);
}

std::vector<GraphValue> Evaluator::run(const std::map<std::string, GraphValue>& inputs) {
  iterations_ = entries_ = 0;
  ValueScope scope{.graph = &graph_};
  for (const GraphInput& input : graph_.inputs) {
    const auto given = inputs.find(input.name);
    const auto initial = graph_.initial.find(input.name);
    if (given != inputs.end())
      scope.values[input.name] = given->second;
    else if (initial != graph_.initial.end())
      scope.values[input.name] = initial->second;
    else
      throw Error("[graph] {}: input '{}' has no value", graph_.name, input.name);
  }
  return run_nodes(graph_, scope);
}

std::vector<GraphValue> Evaluator::run_body(const Graph& body, std::vector<GraphValue> inputs,
                                            const ValueScope* outer) {
  if (inputs.size() != body.inputs.size())
    throw Error("body '{}' has {} inputs; {} are given", body.name, body.inputs.size(), inputs.size());
  ValueScope scope{.graph = &body, .outer = outer};
  for (size_t i = 0; i < inputs.size(); ++i) scope.values[body.inputs[i].name] = std::move(inputs[i]);
  return run_nodes(body, scope);
}

const Evaluator::Plan& Evaluator::plan(const Graph& graph) {
  const auto found = plans_.find(&graph);
  if (found != plans_.end()) return found->second;
  Plan made;
  made.ops.resize(graph.nodes.size());
  made.last_reads.resize(graph.nodes.size());
  std::map<std::string, size_t> last;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (!find_value_function(node.op)) try {
        made.ops[n] = make_operator(node);
      } catch (const Error& error) {
        throw CannotRun(placed(place_of(graph, node), error));
      }
    for (const std::string& output : node.outputs) last[output] = n;
    for (const std::string& value : values_read(node))
      if (last.contains(value)) last[value] = n;
  }
  for (const std::string& output : graph.outputs) last.erase(output);
  for (const auto& [value, n] : last) made.last_reads[n].push_back(value);
  return plans_.emplace(&graph, std::move(made)).first->second;
}

std::vector<GraphValue> Evaluator::run_nodes(const Graph& graph, ValueScope& scope) {
  const Plan& how = plan(graph);
  size_t alive = 0;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    try {
      if (options_.begin) options_.begin(node);
      std::vector<GraphValue> results = run_node(node, how.ops[n].get(), scope);
      if (results.size() < node.outputs.size())
        throw Error("{} outputs are asked for; it makes {}", node.outputs.size(), results.size());
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        if (node.outputs[i].empty()) continue;
        alive += results[i].bytes();
        scope.values[node.outputs[i]] = std::move(results[i]);
      }
      if (options_.end) options_.end(node);
    } catch (const CannotRun& error) {
      throw CannotRun(placed(place_of(graph, node), error));
    } catch (const Error& error) {
      throw Error(placed(place_of(graph, node), error));
    }
    if (alive > options_.most_bytes)
      throw Error("{}: values need more than {} bytes", place_of(graph, node), options_.most_bytes);
    for (const std::string& value : how.last_reads[n])
      if (const auto found = scope.values.find(value); found != scope.values.end()) {
        alive -= std::min(alive, found->second.bytes());
        scope.values.erase(found);
      }
  }
  std::vector<GraphValue> outputs;
  for (const std::string& name : graph.outputs) outputs.push_back(scope.find(name));
  return outputs;
}

std::vector<GraphValue> Evaluator::run_node(const Node& node, const Operator* op, const ValueScope& scope) {
  std::vector<GraphValue> inputs;
  for (const std::string& name : node.inputs) inputs.push_back(name.empty() ? GraphValue() : scope.find(name));
  if (!op) return find_value_function(node.op)({node, std::move(inputs), *this, scope});
  // Identity is the one operator that passes on what it does not look at.
  if (node.op == "Identity" && inputs.size() == 1) return inputs;
  std::vector<Tensor> tensors;
  for (const GraphValue& input : inputs) tensors.push_back(input.as_tensor());
  auto results = evaluate_node(node, *op, tensors, options_);
  if (options_.made) options_.made(node, *op, tensors, results);
  return {results.begin(), results.end()};
}

}  // namespace d5
