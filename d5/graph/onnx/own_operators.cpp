// SPDX-License-Identifier: Apache-2.0
#include "d5/graph/onnx/own_operators.hpp"

#include <array>

namespace d5 {
namespace {

constexpr std::string_view domain = "d5:";
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> reductions{
    {{"mean", "Mean"}, {"sum", "Sum"}, {"none", "None"}}};

Node make(const char* op, std::vector<std::string> inputs, const char* output, Attributes attributes = {}) {
  return {
      .op = op, .name = output, .inputs = std::move(inputs), .outputs = {output}, .attributes = std::move(attributes)};
}

// Over all axes, as a scalar.
Node reduce(const std::string& input, const std::string& reduction) {
  if (reduction == "none") return make("Identity", {input}, "Y");
  return make(reduction == "sum" ? "ReduceSum" : "ReduceMean", {input}, "Y", {{"keepdims", int64_t{0}}});
}

std::vector<Node> squared_error(const std::string& reduction) {
  return {make("Sub", {"A", "B"}, "difference"), make("Mul", {"difference", "difference"}, "square"),
          reduce("square", reduction)};
}

std::vector<Node> binary_cross_entropy(const std::string& reduction) {
  return {make("Constant", {}, "one_f32", {{"value_float", 1.0}}),
          make("CastLike", {"one_f32", "A"}, "one"),
          make("Constant", {}, "least_f32", {{"value_float", -100.0}}),
          make("CastLike", {"least_f32", "A"}, "least"),
          make("Log", {"A"}, "log_yes"),
          make("Max", {"log_yes", "least"}, "yes"),
          make("Sub", {"one", "A"}, "rest"),
          make("Log", {"rest"}, "log_no"),
          make("Max", {"log_no", "least"}, "no"),
          make("Mul", {"B", "yes"}, "first"),
          make("Sub", {"one", "B"}, "other"),
          make("Mul", {"other", "no"}, "second"),
          make("Add", {"first", "second"}, "gain"),
          make("Neg", {"gain"}, "loss"),
          reduce("loss", reduction)};
}

std::vector<Node> cross_entropy(const std::string& reduction) {
  Node loss = make("NegativeLogLikelihoodLoss", {"logarithm", "B", "weights"}, "Y", {{"reduction", reduction}});
  loss.references["ignore_index"] = "ignore_index";
  return {make("Log", {"A"}, "logarithm"), std::move(loss)};
}

struct Row {
  std::string_view op;
  std::vector<Node> (*body)(const std::string& reduction);
  std::vector<std::string> inputs;
};
const std::vector<Row>& rows() {
  static const std::vector<Row> all{{"MeanSquaredError", squared_error, {"A", "B"}},
                                    {"BinaryCrossEntropy", binary_cross_entropy, {"A", "B"}},
                                    {"CrossEntropy", cross_entropy, {"A", "B", "weights"}}};
  return all;
}

}  // namespace

std::optional<OwnOperator> own_operator(const Node& node) {
  if (node.op == "SparseGemm") {
    OwnOperator own{node, {}};
    own.node.op = std::string(domain) + node.op;
    return own;
  }
  for (const Row& row : rows()) {
    if (row.op != node.op) continue;
    const std::string reduction = node.attributes.text("reduction", "mean");
    for (const auto& [word, suffix] : reductions) {
      if (word != reduction) continue;
      OwnOperator own{node, {}};
      own.node.op = fmt::format("{}{}{}", domain, node.op, suffix);
      own.node.attributes.erase("reduction");
      own.function = {.op = own.node.op,
                      .inputs = row.inputs,
                      .outputs = {"Y"},
                      .opsets = {{"", 18}},
                      .nodes = row.body(reduction)};
      return own;
    }
    throw Error("[onnx] node '{}': reduction is '{}'; legal: none, mean, sum", node.name, reduction);
  }
  return {};
}

bool restore_own_operator(Node& node) {
  if (!node.op.starts_with(domain)) return false;
  const std::string name = node.op.substr(domain.size());
  if (name == "SparseGemm") {
    node.op = name;
    return true;
  }
  for (const Row& row : rows())
    for (const auto& [word, suffix] : reductions)
      if (name == fmt::format("{}{}", row.op, suffix)) {
        node.op = row.op;
        node.attributes.set("reduction", std::string(word));
        return true;
      }
  return false;
}

}  // namespace d5
