// SPDX-License-Identifier: Apache-2.0
// Sequences of tensors and optional values (ONNX Sequence*, SplitToSequence, ConcatFromSequence, Optional*).
#include "d5/graph/evaluate.hpp"
#include "d5/graph/pieces.hpp"
#include "d5/operators/known.hpp"

namespace d5 {
namespace {

using Values = std::vector<GraphValue>;

Index integer_at(const ValueCall& call, size_t i) {
  const Tensor& tensor = call.input(i).as_tensor();
  if (tensor.elements() != 1 || (tensor.dtype() != DType::i32 && tensor.dtype() != DType::i64))
    throw Error("input {} is {}; one integer is wanted", i, to_string(call.inputs[i]));
  return integers(tensor)[0];
}

// A place in a sequence; negative ones count from the end. `last`: the largest legal one.
size_t position(Index given, size_t size, Index last) {
  const Index at = given < 0 ? given + static_cast<Index>(size) : given;
  if (at < 0 || at > last) throw Error("position {} is not in a sequence of {}", given, size);
  return static_cast<size_t>(at);
}

Values empty(const ValueCall&) { return {GraphValue::sequence({})}; }

// Of tensors alone: sequences of sequences have no such operators.
Values construct(const ValueCall& call) {
  std::vector<GraphValue> items;
  for (size_t i = 0; i < call.inputs.size(); ++i) items.emplace_back(call.input(i).as_tensor());
  return {GraphValue::sequence(std::move(items))};
}

Values at(const ValueCall& call) {
  const auto& items = call.input(0).as_sequence();
  return {items[position(integer_at(call, 1), items.size(), static_cast<Index>(items.size()) - 1)]};
}

std::vector<GraphValue> copied(const ValueCall& call) {
  const auto& items = call.input(0).as_sequence();
  call.evaluator.count_entries(items.size());
  return items;
}

Values insert(const ValueCall& call) {
  auto items = copied(call);
  const GraphValue& value = call.input(1);
  const Tensor& tensor = value.as_tensor();
  const size_t where =
      call.has(2) ? position(integer_at(call, 2), items.size(), static_cast<Index>(items.size())) : items.size();
  if (!items.empty() && items[0].kind == ValueKind::tensor && items[0].tensor.dtype() != tensor.dtype())
    throw Error("{} cannot be put among {}", to_string(value), to_string(items[0]));
  items.insert(items.begin() + static_cast<long>(where), value);
  return {GraphValue::sequence(std::move(items))};
}

Values erase(const ValueCall& call) {
  auto items = copied(call);
  const auto last = static_cast<Index>(items.size()) - 1;
  const size_t where = position(call.has(1) ? integer_at(call, 1) : last, items.size(), last);
  items.erase(items.begin() + static_cast<long>(where));
  return {GraphValue::sequence(std::move(items))};
}

Values length(const ValueCall& call) {
  return {Tensor::from<int64_t>({}, {static_cast<int64_t>(call.input(0).as_sequence().size())})};
}

// Without sizes: slices of one, whose axis may go. One size: as many of it as fit, and the rest. A list: those sizes.
Values split_to_sequence(const ValueCall& call) {
  const Tensor& x = call.input(0).as_tensor();
  const size_t axis = valid_axis(call.node.attributes.integer("axis", 0), x.shape().rank(), "axis:");
  const Index size = x.shape()[axis];
  std::vector<Index> sizes;
  bool keeps = true;
  if (!call.has(1)) {
    sizes.assign(static_cast<size_t>(size), 1);
    keeps = call.node.attributes.flag("keepdims", true);
  } else if (const Tensor& split = call.inputs[1].as_tensor(); split.shape().rank() == 0) {
    const Index step = integer_at(call, 1);
    if (step < 1) throw Error("split is {}; a positive size is wanted", step);
    for (Index left = size; left > 0; left -= step) sizes.push_back(std::min(left, step));
  } else {
    sizes = integers(split);
  }
  Index first = 0;
  std::vector<GraphValue> items;
  for (const Index part : sizes) {
    items.emplace_back(keeps ? take_range(x, axis, first, part) : take_index(x, axis, first));
    first += part;
  }
  if (first != size) throw Error("the parts have {} entries on axis {}, which has {}", first, axis, size);
  return {GraphValue::sequence(std::move(items))};
}

Values concat_from_sequence(const ValueCall& call) {
  std::vector<Tensor> parts;
  for (const GraphValue& item : call.input(0).as_sequence()) parts.push_back(item.as_tensor());
  if (parts.empty()) throw Error("the sequence is empty");
  const bool new_axis = call.node.attributes.flag("new_axis", false);
  const size_t rank = parts[0].shape().rank() + (new_axis ? 1 : 0);
  const size_t axis = valid_axis(call.node.attributes.integer("axis", 0), rank, "axis:");
  return {new_axis ? stack(parts, axis) : concatenate(parts, axis)};
}

Values optional(const ValueCall& call) {
  return {call.has(0) ? GraphValue::optional({call.inputs[0]}) : GraphValue::optional({})};
}

Values has_element(const ValueCall& call) {
  const bool has = call.has(0) && !(call.inputs[0].kind == ValueKind::optional && call.inputs[0].items().empty());
  return {Tensor::from<bool>({}, {has})};
}

Values get_element(const ValueCall& call) {
  const GraphValue& value = call.input(0);
  if (value.kind != ValueKind::optional) return {value};
  if (value.items().empty()) throw Error("the optional holds nothing");
  return {value.items()[0]};
}

constexpr ValueFunctionRow rows[] = {{"ConcatFromSequence", concat_from_sequence},
                                     {"Optional", optional},
                                     {"OptionalGetElement", get_element},
                                     {"OptionalHasElement", has_element},
                                     {"SequenceAt", at},
                                     {"SequenceConstruct", construct},
                                     {"SequenceEmpty", empty},
                                     {"SequenceErase", erase},
                                     {"SequenceInsert", insert},
                                     {"SequenceLength", length},
                                     {"SplitToSequence", split_to_sequence}};

}  // namespace

std::span<const ValueFunctionRow> sequence_functions() { return rows; }

}  // namespace d5
