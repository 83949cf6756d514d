// SPDX-License-Identifier: Apache-2.0
#include "d5/graph/modern/rewrite.hpp"

#include "d5/graph/edit.hpp"

namespace d5 {

const std::string& Rewrite::input(size_t i) const {
  if (!has_input(i)) throw Error("input {} is missing", i);
  return node.inputs[i];
}

void Rewrite::set_input(size_t i, std::string value) {
  if (node.inputs.size() <= i) node.inputs.resize(i + 1);
  node.inputs[i] = std::move(value);
}

bool Rewrite::move_to_input(const std::string& attribute, size_t i) {
  if (!node.attributes.has(attribute)) return false;
  const std::vector<int64_t> list = node.attributes.integers(attribute);
  node.attributes.erase(attribute);
  set_input(i, constant(list));
  return true;
}

std::string Rewrite::constant(Tensor tensor) {
  std::string name = fresh_(node.outputs.empty() ? "constant" : node.outputs[0] + "/constant");
  graph_.constants[name] = std::move(tensor);
  return name;
}

std::string Rewrite::constant(const std::vector<int64_t>& list) {
  return constant(Tensor::from<int64_t>({static_cast<Index>(list.size())}, list));
}

std::string Rewrite::before(const std::string& op, std::vector<std::string> inputs, Attributes attributes) {
  std::string name = fresh_((node.outputs.empty() ? "value" : node.outputs[0]) + "/" + op);
  before_.push_back(
      {.op = op, .name = name, .inputs = std::move(inputs), .outputs = {name}, .attributes = std::move(attributes)});
  return name;
}

void Rewrite::after(const std::string& op, size_t output, std::vector<std::string> more_inputs, Attributes attributes) {
  if (output >= node.outputs.size() || node.outputs[output].empty()) return;
  const std::string name = node.outputs[output], inner = fresh_(name + "/" + node.op);
  node.outputs[output] = inner;
  more_inputs.insert(more_inputs.begin(), inner);
  after_.push_back({.op = op,
                    .name = fresh_(name + "/" + op),
                    .inputs = std::move(more_inputs),
                    .outputs = {name},
                    .attributes = std::move(attributes)});
}

std::string Rewrite::number_like(double number, const std::string& value) {
  if (is_known(value)) return constant(Tensor::scalar(number, dtype(value)));
  return before("CastLike", {constant(Tensor::scalar(number, DType::f32)), value});
}

std::string Rewrite::inline_body(const Graph& body, const std::vector<std::string>& inputs) {
  InlinedBody inlined = inlined_body(body, inputs, node.name + "/", fresh_);
  if (inlined.outputs.empty()) throw Error("body '{}' makes nothing", body.name);
  graph_.constants.merge(inlined.constants);
  before_.insert(before_.end(), std::make_move_iterator(inlined.nodes.begin()),
                 std::make_move_iterator(inlined.nodes.end()));
  return inlined.outputs[0];
}

const TensorSpec& Rewrite::spec(const std::string& value) const {
  if (const TensorSpec* found = find_spec_(value)) return *found;
  throw CannotRun("{} of opset {} depends on the type and rank of '{}', which cannot be told", node.op, version, value);
}
size_t Rewrite::rank(const std::string& value) const { return spec(value).shape.rank(); }
DType Rewrite::dtype(const std::string& value) const { return spec(value).dtype; }

std::vector<Node> Rewrite::result() && {
  std::vector<Node> nodes = std::move(before_);
  nodes.push_back(std::move(node));
  nodes.insert(nodes.end(), std::make_move_iterator(after_.begin()), std::make_move_iterator(after_.end()));
  return nodes;
}

}  // namespace d5
