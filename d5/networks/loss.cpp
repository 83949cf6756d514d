// SPDX-License-Identifier: Apache-2.0
#include "d5/networks/loss.hpp"

#include <algorithm>

#include "d5/networks/form.hpp"

namespace d5 {
namespace {

const std::vector<std::string> kinds{"cross-entropy", "token-cross-entropy", "mean-squared-error",
                                     "binary-cross-entropy"};

class LossWriter {
 public:
  LossWriter(Graph& graph, const std::string& kind) : graph_(graph), kind_(kind) {}

  void add_target(const TensorSpec& scores) {
    if (scores.shape.rank() < 2)
      throw Error("[loss] {}: '{}' is {}; samples and at least one more axis are wanted", graph_.name,
                  graph_.outputs.at(0), to_string(scores));
    TensorSpec target{scores.dtype, scores.shape};
    if (of_classes()) {
      std::vector<Index> sizes = scores.shape.sizes();
      sizes.erase(kind_ == "cross-entropy" ? sizes.begin() + 1 : sizes.end() - 1);
      target = {DType::i64, Shape(sizes)};
    }
    std::vector<std::string> symbols(target.shape.rank());
    symbols[0] = "N";
    graph_.inputs.push_back({.name = target_name, .spec = target, .differentiable = false, .symbols = symbols});
  }

  // One loss of the value `scores`, as the value `name`.
  void add(const std::string& scores, const std::string& name) {
    if (kind_ == "cross-entropy") {
      node("SoftmaxCrossEntropyLoss", {scores, target_name}, name, {{"reduction", "mean"}});
    } else if (kind_ == "token-cross-entropy") {
      const Index words = infer_specs(graph_).at(scores).shape.back();
      node("Reshape", {scores, list(name + ".rows", {-1, words})}, name + ".scores");
      node("Reshape", {target_name, list(name + ".words", {-1})}, name + ".target");
      node("SoftmaxCrossEntropyLoss", {name + ".scores", name + ".target"}, name, {{"reduction", "mean"}});
    } else if (kind_ == "mean-squared-error") {
      node("Sub", {scores, target_name}, name + ".difference");
      node("Mul", {name + ".difference", name + ".difference"}, name + ".square");
      node("ReduceMean", {name + ".square"}, name, {{"keepdims", int64_t{0}}});
    } else {
      node("Softplus", {scores}, name + ".softplus");
      node("Mul", {scores, target_name}, name + ".product");
      node("Sub", {name + ".softplus", name + ".product"}, name + ".each");
      node("ReduceMean", {name + ".each"}, name, {{"keepdims", int64_t{0}}});
    }
  }

  void add_weighted_sum(const std::vector<std::string>& losses, double weight, DType type) {
    graph_.constants.insert_or_assign("auxiliary weight", Tensor::scalar(weight, type));
    std::vector<std::string> terms{losses[0]};
    for (size_t i = 1; i < losses.size(); ++i) {
      terms.push_back(losses[i] + ".weighted");
      node("Mul", {losses[i], "auxiliary weight"}, terms.back());
    }
    node("Sum", terms, loss_name);
  }

 private:
  bool of_classes() const { return kind_.ends_with("cross-entropy") && kind_ != "binary-cross-entropy"; }

  void node(const std::string& op, const std::vector<std::string>& inputs, const std::string& output,
            Attributes attributes = {}) {
    graph_.nodes.push_back({op, output, inputs, {output}, std::move(attributes)});
  }
  std::string list(const std::string& name, const std::vector<int64_t>& values) {
    graph_.constants.insert_or_assign(name, Tensor::from<int64_t>({static_cast<Index>(values.size())}, values));
    return name;
  }

  Graph& graph_;
  const std::string& kind_;
};

}  // namespace

Graph with_loss(Graph graph, const std::string& kind, const LossOptions& options) {
  if (std::ranges::find(kinds, kind) == kinds.end()) fail_unknown("[loss]", "kind of loss", kind, kinds);
  std::vector<std::string> scores, statistics;
  const auto updates = running_updates(graph);
  for (const std::string& name : graph.outputs) {
    const bool is_update = std::ranges::any_of(updates, [&](const auto& pair) { return pair.second == name; });
    (is_update ? statistics : scores).push_back(name);
  }
  if (scores.empty()) throw Error("[loss] {} has no output", graph.name);
  const TensorSpec spec = infer_specs(graph).at(scores[0]);
  LossWriter writer(graph, kind);
  writer.add_target(spec);
  if (scores.size() == 1) {
    writer.add(scores[0], loss_name);
  } else {
    std::vector<std::string> losses;
    for (const std::string& name : scores) {
      losses.push_back(fmt::format("{}.{}", loss_name, name));
      writer.add(name, losses.back());
    }
    writer.add_weighted_sum(losses, options.auxiliary_weight, spec.dtype);
  }
  graph.outputs = {loss_name};
  if (options.keep_scores) graph.outputs.insert(graph.outputs.end(), scores.begin(), scores.end());
  graph.outputs.insert(graph.outputs.end(), statistics.begin(), statistics.end());
  return graph;
}

}  // namespace d5
