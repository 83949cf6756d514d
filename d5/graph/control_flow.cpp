// SPDX-License-Identifier: Apache-2.0
// If, Loop, Scan and SequenceMap: nodes that run a body. A body sees the values around it by name.
#include <algorithm>

#include "d5/graph/evaluate.hpp"
#include "d5/graph/onnx/declared.hpp"
#include "d5/graph/pieces.hpp"

namespace d5 {
namespace {

bool truth(const GraphValue& value, const char* what) {
  const Tensor& tensor = value.as_tensor();
  if (tensor.elements() != 1 || tensor.dtype() != DType::boolean)
    throw Error("{} is {}; one bool is wanted", what, to_string(value));
  return tensor.values<bool>()[0];
}

std::vector<GraphValue> run_if(const ValueCall& call) {
  const bool condition = truth(call.input(0), "the condition");
  return call.evaluator.run_body(call.body(condition ? "then_branch" : "else_branch"), {}, &call.scope);
}

// What a body made in each iteration, along a new axis. Without iterations the body's own words tell the element type.
Tensor gathered(const std::vector<Tensor>& made, size_t axis, const Graph& body, size_t output) {
  if (!made.empty()) return stack(made, axis);
  const TensorSpec declared = declared_output(body, output);
  auto sizes = declared.shape.sizes();
  sizes.insert(sizes.begin() + static_cast<long>(std::min(axis, sizes.size())), 0);
  return {declared.dtype, Shape(std::move(sizes))};
}

// Inputs: the most iterations (or none given), whether to begin (or none given), values that are carried on. The body
// takes the number of the iteration, the condition and those values, and makes the condition, the values and parts of
// results that grow by one entry in each iteration.
std::vector<GraphValue> run_loop(const ValueCall& call) {
  const Graph& body = call.body("body");
  int64_t most = std::numeric_limits<int64_t>::max();
  if (call.has(0)) {
    const Tensor& count = call.inputs[0].as_tensor();
    if (count.elements() != 1 || count.dtype() != DType::i64)
      throw Error("the number of iterations is {}; one i64 is wanted", to_string(call.inputs[0]));
    most = count.values<int64_t>()[0];
  }
  bool goes_on = !call.has(1) || truth(call.inputs[1], "the condition");
  const size_t carried = call.inputs.size() < 2 ? 0 : call.inputs.size() - 2;
  if (body.outputs.size() < carried + 1)
    throw Error("the body makes {} values; {} and a condition are carried on", body.outputs.size(), carried);
  std::vector<GraphValue> values(call.inputs.begin() + static_cast<long>(std::min<size_t>(2, call.inputs.size())),
                                 call.inputs.end());
  std::vector<std::vector<Tensor>> grown(body.outputs.size() - carried - 1);
  size_t grown_bytes = 0;
  for (int64_t i = 0; i < most && goes_on; ++i) {
    call.evaluator.count_iteration();
    std::vector<GraphValue> inputs{Tensor::from<int64_t>({}, {i}), Tensor::from<bool>({}, {goes_on})};
    inputs.insert(inputs.end(), std::make_move_iterator(values.begin()), std::make_move_iterator(values.end()));
    auto made = call.evaluator.run_body(body, std::move(inputs), &call.scope);
    goes_on = truth(made[0], "the condition that the body makes");
    values.assign(std::make_move_iterator(made.begin() + 1),
                  std::make_move_iterator(made.begin() + 1 + static_cast<long>(carried)));
    for (size_t k = 0; k < grown.size(); ++k) {
      grown[k].push_back(made[1 + carried + k].as_tensor());
      grown_bytes += grown[k].back().bytes() + 256;
    }
    if (grown_bytes > call.evaluator.options().most_bytes)
      throw Error("its results need more than {} bytes", call.evaluator.options().most_bytes);
  }
  for (size_t k = 0; k < grown.size(); ++k) values.emplace_back(gathered(grown[k], 0, body, 1 + carried + k));
  return values;
}

// An attribute with one number for each of `count` values.
std::vector<int64_t> numbers(const ValueCall& call, const char* attribute, size_t count) {
  auto list = call.node.attributes.integers(attribute, std::vector<int64_t>(count, 0));
  if (list.size() != count) throw Error("{} has {} numbers; {} are wanted", attribute, list.size(), count);
  return list;
}

// Inputs: states that are carried on, then tensors that are gone through along an axis, one entry an iteration.
std::vector<GraphValue> run_scan(const ValueCall& call) {
  const std::vector<GraphValue>& inputs = call.inputs;
  const Graph& body = call.body("body");
  const auto scanned = static_cast<size_t>(call.node.attributes.integer("num_scan_inputs", 0));
  if (scanned < 1 || scanned > inputs.size())
    throw Error("num_scan_inputs is {}; it has {} inputs", scanned, inputs.size());
  const size_t states = inputs.size() - scanned;
  if (body.outputs.size() < states)
    throw Error("the body makes {} values; {} are carried on", body.outputs.size(), states);
  const size_t grown_count = body.outputs.size() - states;
  const auto axes = numbers(call, "scan_input_axes", scanned),
             directions = numbers(call, "scan_input_directions", scanned);
  const auto output_axes = numbers(call, "scan_output_axes", grown_count);
  const auto output_directions = numbers(call, "scan_output_directions", grown_count);

  std::vector<size_t> along;
  Index length = -1;
  for (size_t k = 0; k < scanned; ++k) {
    const Tensor& tensor = inputs[states + k].as_tensor();
    along.push_back(valid_axis(axes[k], tensor.shape().rank(), "scan_input_axes:"));
    const Index size = tensor.shape()[along[k]];
    if (length >= 0 && size != length) throw Error("scan inputs have {} and {} entries", length, size);
    length = size;
  }
  std::vector<GraphValue> values(inputs.begin(), inputs.begin() + static_cast<long>(states));
  std::vector<std::vector<Tensor>> grown(grown_count);
  for (Index i = 0; i < length; ++i) {
    call.evaluator.count_iteration();
    auto given = std::move(values);
    for (size_t k = 0; k < scanned; ++k)
      given.emplace_back(take_index(inputs[states + k].as_tensor(), along[k], directions[k] ? length - 1 - i : i));
    auto made = call.evaluator.run_body(body, std::move(given), &call.scope);
    values.assign(std::make_move_iterator(made.begin()),
                  std::make_move_iterator(made.begin() + static_cast<long>(states)));
    for (size_t k = 0; k < grown_count; ++k) grown[k].push_back(made[states + k].as_tensor());
  }
  for (size_t k = 0; k < grown_count; ++k) {
    if (output_directions[k]) std::ranges::reverse(grown[k]);
    const size_t rank = grown[k].empty() ? declared_output(body, states + k).shape.rank() : grown[k][0].shape().rank();
    const size_t axis = valid_axis(output_axes[k], rank + 1, "scan_output_axes:");
    values.emplace_back(gathered(grown[k], axis, body, states + k));
  }
  return values;
}

// The body for every entry of the first sequence; further sequences give their entry, tensors stay what they are.
std::vector<GraphValue> run_sequence_map(const ValueCall& call) {
  const Graph& body = call.body("body");
  const size_t count = call.input(0).as_sequence().size();
  std::vector<std::vector<GraphValue>> made(body.outputs.size());
  for (size_t i = 0; i < count; ++i) {
    call.evaluator.count_iteration();
    std::vector<GraphValue> inputs;
    for (const GraphValue& input : call.inputs) {
      if (input.kind == ValueKind::sequence && input.items().size() != count)
        throw Error("sequences of {} and {} entries", count, input.items().size());
      inputs.push_back(input.kind == ValueKind::sequence ? input.items()[i] : input);
    }
    auto results = call.evaluator.run_body(body, std::move(inputs), &call.scope);
    for (size_t k = 0; k < results.size(); ++k) made[k].emplace_back(results[k].as_tensor());
  }
  std::vector<GraphValue> sequences;
  for (auto& items : made) sequences.push_back(GraphValue::sequence(std::move(items)));
  return sequences;
}

constexpr ValueFunctionRow rows[] = {
    {"If", run_if}, {"Loop", run_loop}, {"Scan", run_scan}, {"SequenceMap", run_sequence_map}};

}  // namespace

std::span<const ValueFunctionRow> control_flow_functions() { return rows; }

}  // namespace d5
