// SPDX-License-Identifier: Apache-2.0
#include "d5/graph/fold.hpp"

#include <algorithm>
#include <deque>

#include "d5/graph/edit.hpp"
#include "d5/graph/evaluate.hpp"

namespace d5 {
namespace {

class Folder {
 public:
  Folder(Graph& graph, const FoldOptions& options) : graph_(graph), options_(options) {
    for (const GraphInput& input : graph.inputs) {
      const bool is_free = std::ranges::any_of(input.symbols, [](const std::string& s) { return !s.empty(); });
      if (input.kind == ValueKind::tensor && (!is_free || (options.bound_sizes && input.symbols[0] != "*")))
        specs_[input.name] = input.spec;
    }
    for (const auto& [name, tensor] : graph.constants) remember(name, tensor);
  }

  size_t run() {
    std::deque<Node> left(std::make_move_iterator(graph_.nodes.begin()), std::make_move_iterator(graph_.nodes.end()));
    graph_.nodes.clear();
    const size_t before = left.size();
    size_t taken_in = 0;
    while (!left.empty()) {
      Node node = std::move(left.front());
      left.pop_front();
      if (const Graph* branch = taken_branch(node)) {
        auto nodes = inlined(node, *branch);
        taken_in += nodes.size();
        left.insert(left.begin(), std::make_move_iterator(nodes.begin()), std::make_move_iterator(nodes.end()));
        continue;
      }
      if (!fold(node)) graph_.nodes.push_back(std::move(node));
    }
    const size_t gone = before + taken_in - graph_.nodes.size();
    return gone + remove_dead(graph_);
  }

 private:
  void remember(const std::string& name, const Tensor& tensor) {
    specs_[name] = {tensor.dtype(), tensor.shape(), std::make_shared<const Tensor>(tensor)};
  }

  const Tensor* constant(const std::string& name) const {
    const auto found = graph_.constants.find(name);
    return found == graph_.constants.end() ? nullptr : &found->second;
  }

  const Graph* taken_branch(const Node& node) const {
    if (node.op != "If" || node.inputs.size() != 1) return nullptr;
    const Tensor* condition = constant(node.inputs[0]);
    if (!condition || condition->dtype() != DType::boolean || condition->elements() != 1) return nullptr;
    const auto branch = node.attributes.graph(condition->values<bool>()[0] ? "then_branch" : "else_branch");
    return branch && branch->outputs.size() >= node.outputs.size() ? branch.get() : nullptr;
  }

  // The branch's nodes in the graph itself.
  std::vector<Node> inlined(const Node& node, const Graph& branch) {
    InlinedBody body =
        inlined_body(branch, {}, node.name + "/", [this](const std::string& base) { return fresh_name(graph_, base); });
    for (auto& [name, tensor] : body.constants) {
      graph_.constants[name] = tensor;
      remember(name, tensor);
    }
    for (size_t i = 0; i < node.outputs.size(); ++i)
      body.nodes.push_back({.op = "Identity",
                            .name = node.name + "/" + node.outputs[i],
                            .inputs = {body.outputs[i]},
                            .outputs = {node.outputs[i]}});
    return std::move(body.nodes);
  }

  // True: its results are constants now.
  bool fold(const Node& node) {
    const OperatorEntry* entry = find_registered<operators>(node.op);
    if (!entry || is_random(node.op)) return false;
    try {
      const auto op = make_operator(node);
      std::vector<Tensor> inputs;
      bool all_constant = true;
      double input_bytes = 0;
      std::vector<TensorSpec> in;
      for (const std::string& name : node.inputs) {
        const Tensor* found = name.empty() ? nullptr : constant(name);
        all_constant = all_constant && (name.empty() || found);
        inputs.push_back(found ? *found : Tensor());
        input_bytes += found ? static_cast<double>(found->bytes()) : 0;
        if (name.empty()) {
          in.push_back(TensorSpec::absent());
        } else {
          const auto spec = specs_.find(name);
          if (spec == specs_.end()) return false;
          in.push_back(spec->second);
        }
      }
      const auto made = infer_node(node, *op, in);
      double output_bytes = 0;
      for (const TensorSpec& spec : made) output_bytes += spec.bytes();
      const bool small = output_bytes <= std::max(input_bytes, static_cast<double>(options_.most_bytes));
      std::vector<Tensor> results;
      if (all_constant && small && op->cost(in, Pass::forward).flops <= options_.most_flops) {
        results = evaluate_node(node, *op, inputs);
      } else if (made.size() >= node.outputs.size() &&
                 std::ranges::all_of(made, [](const TensorSpec& spec) { return spec.known != nullptr; })) {
        for (const TensorSpec& spec : made) results.push_back(*spec.known);
      } else {
        for (size_t i = 0; i < node.outputs.size() && i < made.size(); ++i) specs_[node.outputs[i]] = made[i];
        return false;
      }
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        if (node.outputs[i].empty()) continue;
        graph_.constants[node.outputs[i]] = results[i];
        remember(node.outputs[i], results[i]);
      }
      return true;
    } catch (const Error&) {  // whoever runs the graph says why
      return false;
    }
  }

  Graph& graph_;
  const FoldOptions& options_;
  Specs specs_;
};

}  // namespace

size_t fold_constants(Graph& graph, const FoldOptions& options) { return Folder(graph, options).run(); }

}  // namespace d5
