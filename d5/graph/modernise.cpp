// SPDX-License-Identifier: Apache-2.0
#include "d5/graph/modernise.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <utility>

#include "d5/graph/edit.hpp"
#include "d5/graph/evaluate.hpp"
#include "d5/graph/modern/rewrite.hpp"
#include "d5/graph/onnx/opsets.hpp"
#include "d5/graph/onnx/own_operators.hpp"

namespace d5 {
namespace {

using Opsets = std::map<std::string, int64_t>;

constexpr size_t most_nodes = 200'000;  // functions that call functions grow fast
constexpr int deepest = 64;
constexpr int64_t last_shape_rule = 13;  // rules that look at shapes concern opsets below

// Values that a node can see: those of its own graph and of the graphs around it.
struct Scope {
  const Scope* outer = nullptr;
  Specs specs;
  std::set<std::string> names;

  const TensorSpec* find(const std::string& value) const {
    for (const Scope* scope = this; scope; scope = scope->outer) {
      if (const auto found = scope->specs.find(value); found != scope->specs.end()) return &found->second;
      if (scope->names.contains(value)) return nullptr;
    }
    return nullptr;
  }
  bool sees(const std::string& value) const {
    for (const Scope* scope = this; scope; scope = scope->outer)
      if (scope->names.contains(value)) return true;
    return false;
  }
};

template <class F>
void change_bodies(Node& node, F&& change) {
  const Attributes before = node.attributes;
  for (const auto& [name, value] : before.values())
    if (const auto* body = std::get_if<std::shared_ptr<const Graph>>(&value))
      node.attributes.set(name, std::make_shared<const Graph>(change(**body)));
}

class Modernizer {
 public:
  explicit Modernizer(const Graph& graph) {
    for (const Function& function : graph.functions) functions_[function.op] = &function;
    take_names(graph);
    for (const Function& function : graph.functions)
      for (const Node& node : function.nodes) taken_.insert(node.outputs.begin(), node.outputs.end());
  }

  Graph run(Graph graph, const Opsets& opsets, const Scope* outer, int depth) {
    if (depth > deepest) throw Error("[graph] {}: bodies are nested more than {} deep", graph.name, deepest);
    sort_nodes(graph, [&](const std::string& value) { return outer && outer->sees(value); });
    Scope scope{.outer = outer, .specs = {}, .names = {}};
    for (const GraphInput& input : graph.inputs) {
      scope.names.insert(input.name);
      if (input.kind == ValueKind::tensor && !(input.symbols.size() == 1 && input.symbols[0] == "*"))
        scope.specs[input.name] = input.spec;
    }
    for (const auto& [name, tensor] : graph.constants) {
      scope.names.insert(name);
      scope.specs[name] = {tensor.dtype(), tensor.shape(), std::make_shared<const Tensor>(tensor)};
    }
    std::deque<Called> left;
    for (Node& node : graph.nodes) left.push_back({std::move(node), &opsets, 0});
    graph.nodes.clear();
    while (!left.empty()) {
      Called call = std::move(left.front());
      left.pop_front();
      if (++nodes_ > most_nodes)
        throw Error("[graph] {}: it has more than {} nodes, calls of functions among them", graph.name, most_nodes);
      const std::string place = fmt::format("[graph] {}: node '{}' ({})", graph.name, call.node.name, call.node.op);
      try {
        restore_own_operator(call.node);
        if (const auto function = functions_.find(call.node.op); function != functions_.end()) {
          expand(*function->second, call, left);
          continue;
        }
        rewrite(graph, std::move(call), scope, depth);
      } catch (const CannotRun& error) {
        throw CannotRun(placed(place, error));
      } catch (const Error& error) {
        throw Error(placed(place, error));
      }
    }
    name_nodes(graph);
    graph.opsets.erase("");
    graph.functions.clear();
    return graph;
  }

 private:
  struct Called {
    Node node;
    const Opsets* opsets;
    int depth;  // of functions that called it
  };

  void take_names(const Graph& graph) {
    for (const GraphInput& input : graph.inputs) taken_.insert(input.name);
    for (const auto& [name, tensor] : graph.constants) taken_.insert(name);
    for (const Node& node : graph.nodes) {
      taken_.insert(node.outputs.begin(), node.outputs.end());
      for (const auto& [name, value] : node.attributes.values())
        if (const auto* body = std::get_if<std::shared_ptr<const Graph>>(&value)) take_names(**body);
    }
  }

  std::string fresh(const std::string& base) {
    std::string name = base;
    for (size_t& i = counters_[base]; !taken_.insert(name).second;) name = fmt::format("{}_{}", base, ++i);
    return name;
  }

  static int64_t version_of(const Node& node, const Opsets& opsets) {
    const size_t colon = node.op.find(':');
    const std::string domain = colon == std::string::npos ? "" : node.op.substr(0, colon);
    const auto found = opsets.find(domain);
    return found == opsets.end() ? std::numeric_limits<int64_t>::max() : found->second;
  }

  // The body in place of the call: names of its own get fresh ones, those of its inputs and outputs the caller's.
  void expand(const Function& function, const Called& call, std::deque<Called>& left) {
    // Without the place of the node: its name is as long as the way there.
    if (call.depth >= deepest)
      throw Error("[graph] function '{}' and others call each other more than {} deep", function.op, deepest);
    if (call.node.inputs.size() > function.inputs.size() || call.node.outputs.size() > function.outputs.size())
      throw Error("{} inputs and {} outputs; the function has {} and {}", call.node.inputs.size(),
                  call.node.outputs.size(), function.inputs.size(), function.outputs.size());
    Graph body{.name = function.op, .nodes = function.nodes};
    for (const std::string& input : function.inputs) body.inputs.push_back({.name = input});
    body.outputs = function.outputs;
    sort_nodes(body);
    std::map<std::string, std::string> names;
    for (size_t i = 0; i < function.inputs.size(); ++i)
      names[function.inputs[i]] = i < call.node.inputs.size() ? call.node.inputs[i] : "";
    std::vector<std::pair<std::string, std::string>> passed_through;  // an input that is an output as well
    for (size_t i = 0; i < function.outputs.size() && i < call.node.outputs.size(); ++i) {
      if (call.node.outputs[i].empty()) continue;
      if (names.contains(function.outputs[i]))
        passed_through.emplace_back(names[function.outputs[i]], call.node.outputs[i]);
      else
        names[function.outputs[i]] = call.node.outputs[i];
    }
    const std::string prefix = call.node.name.empty() ? function.op : call.node.name;
    std::vector<Called> made;
    for (Node& node : body.nodes) {
      for (std::string& output : node.outputs) {
        if (output.empty()) continue;
        if (!names.contains(output)) names[output] = fresh(prefix + "/" + output);
        output = names[output];
      }
      for (std::string& input : node.inputs)
        if (!input.empty()) input = names.at(input);
      node.name = prefix + "/" + (node.name.empty() ? node.op : node.name);
      resolve(node, call.node.attributes, function.defaults);
      change_bodies(node, [&](const Graph& inner) { return with_own_names(rename_captured(inner, names)); });
      made.push_back({std::move(node), function.opsets.empty() ? call.opsets : &function.opsets, call.depth + 1});
    }
    for (const auto& [from, to] : passed_through)
      made.push_back({{.op = "Identity", .name = prefix + "/" + to, .inputs = {from}, .outputs = {to}},
                      &function.opsets,
                      call.depth + 1});
    if (left.size() + made.size() > most_nodes) throw Error("its functions make more than {} nodes", most_nodes);
    left.insert(left.begin(), std::make_move_iterator(made.begin()), std::make_move_iterator(made.end()));
  }

  // Bodies of a function, too: what they make is called as nothing else, here or where they came from.
  Graph with_own_names(Graph body) {
    std::map<std::string, std::string> names;
    const auto own = [&](std::string& name) {
      if (name.empty()) return;
      const std::string given = fresh(name);
      names[std::exchange(name, given)] = given;
    };
    for (GraphInput& input : body.inputs) own(input.name);
    std::map<std::string, Tensor> constants;
    for (const auto& [name, tensor] : body.constants) {
      std::string called = name;
      own(called);
      constants[called] = tensor;
    }
    body.constants = std::move(constants);
    for (Node& node : body.nodes)
      for (std::string& output : node.outputs) own(output);
    const auto rename = [&](std::string& name) {
      if (const auto found = names.find(name); found != names.end()) name = found->second;
    };
    for (Node& node : body.nodes) {
      for (std::string& input : node.inputs) rename(input);
      change_bodies(node, [&](const Graph& inner) { return with_own_names(rename_captured(inner, names)); });
    }
    for (std::string& output : body.outputs) rename(output);
    return body;
  }

  // Attributes that refer to the function's, here and in bodies.
  static void resolve(Node& node, const Attributes& given, const Attributes& defaults) {
    for (const auto& [attribute, from] : node.references)
      for (const Attributes* values : {&given, &defaults})
        if (const auto found = values->values().find(from); found != values->values().end()) {
          node.attributes.set(attribute, found->second);
          break;
        }
    node.references.clear();
    change_bodies(node, [&](Graph body) {
      for (Node& inner : body.nodes) resolve(inner, given, defaults);
      return body;
    });
  }

  void rewrite(Graph& graph, Called call, Scope& scope, int depth) {
    const int64_t version = version_of(call.node, *call.opsets);
    const Rewrite::Fresh fresh_name = [this](const std::string& base) { return fresh(base); };
    const Rewrite::FindSpec find_spec = [&scope](const std::string& value) { return scope.find(value); };
    Rewrite one(std::move(call.node), version, graph, fresh_name, find_spec);
    for (const auto& rules : {legacy_rules(), moved_attribute_rules(), changed_meaning_rules(), composed_rules()})
      for (const Rule& rule : rules)
        if (version < rule.until && (rule.op == std::string_view("*") || one.node.op == rule.op)) rule.apply(one);
    const bool look_at_shapes = version < last_shape_rule;
    for (Node& node : std::move(one).result()) {
      change_bodies(node, [&](const Graph& body) { return run(body, *call.opsets, &scope, depth + 1); });
      scope.names.insert(node.outputs.begin(), node.outputs.end());
      for (const std::string& input : node.inputs)  // constants that the rule made
        if (const auto found = graph.constants.find(input);
            found != graph.constants.end() && scope.names.insert(input).second)
          scope.specs[input] = {found->second.dtype(), found->second.shape(),
                                std::make_shared<const Tensor>(found->second)};
      if (look_at_shapes) infer(node, scope);
      graph.nodes.push_back(std::move(node));
    }
  }

  // What can be told of its outputs; where nothing can, nothing is.
  static void infer(const Node& node, Scope& scope) {
    if (!find_registered<operators>(node.op)) return;
    std::vector<TensorSpec> in;
    for (const std::string& input : node.inputs) {
      const TensorSpec* found = input.empty() ? nullptr : scope.find(input);
      if (!input.empty() && !found) return;
      in.push_back(found ? *found : TensorSpec::absent());
    }
    try {
      const auto made = infer_node(node, *make_operator(node), in);
      for (size_t i = 0; i < node.outputs.size() && i < made.size(); ++i)
        if (!node.outputs[i].empty()) scope.specs[node.outputs[i]] = made[i];
    } catch (const Error&) {
    }
  }

  static void name_nodes(Graph& graph) {
    std::set<std::string> names;
    std::map<std::string, size_t> counters;
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      Node& node = graph.nodes[n];
      if (node.name.empty()) node.name = fmt::format("{}_{}", node.op, n);
      std::string name = node.name;
      for (size_t& i = counters.try_emplace(name, 1).first->second; !names.insert(name).second;)
        name = fmt::format("{}_{}", node.name, ++i);
      node.name = name;
    }
  }

  std::map<std::string, const Function*> functions_;
  std::set<std::string> taken_;
  std::map<std::string, size_t> counters_;
  size_t nodes_ = 0;
};

// What a later opset means by its words is not known.
void check_known(const std::string& name, const Opsets& opsets) {
  if (const auto own = opsets.find(""); own != opsets.end() && own->second > newest_opset)
    throw CannotRun("[graph] {}: opset {} is not supported; {} is the newest that is known", name, own->second,
                    newest_opset);
}

}  // namespace

std::optional<std::string> unknown_operator_as_read(const Graph& graph) {
  Graph left = graph;
  std::erase_if(left.nodes, [&](Node& node) {
    restore_own_operator(node);
    const auto has_rule = [&](std::span<const Rule> rules) {
      return std::ranges::any_of(rules, [&](const Rule& rule) { return node.op == rule.op; });
    };
    return has_rule(legacy_rules()) || has_rule(moved_attribute_rules()) || has_rule(changed_meaning_rules()) ||
           has_rule(composed_rules()) ||
           std::ranges::any_of(graph.functions, [&](const Function& function) { return function.op == node.op; });
  });
  return unknown_operator(left);
}

Graph modernise(const Graph& graph) {
  check_known(graph.name, graph.opsets);
  for (const Function& function : graph.functions) check_known(graph.name, function.opsets);
  if (graph.opsets.empty()) {
    Graph sorted = graph;
    sort_nodes(sorted);
    return sorted;
  }
  return Modernizer(graph).run(graph, graph.opsets, nullptr, 0);
}

}  // namespace d5
