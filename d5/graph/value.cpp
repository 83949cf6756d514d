// SPDX-License-Identifier: Apache-2.0
#include "d5/graph/value.hpp"

namespace d5 {

GraphValue GraphValue::sequence(std::vector<GraphValue> items) {
  GraphValue value;
  value.kind = ValueKind::sequence;
  value.items = std::move(items);
  return value;
}

GraphValue GraphValue::optional(std::vector<GraphValue> held) {
  GraphValue value;
  value.kind = ValueKind::optional;
  value.items = std::move(held);
  return value;
}

const Tensor& GraphValue::as_tensor() const {
  if (kind != ValueKind::tensor) throw Error("{} is given; a tensor is wanted", to_string(*this));
  return tensor;
}

const std::vector<GraphValue>& GraphValue::as_sequence() const {
  if (kind != ValueKind::sequence) throw Error("{} is given; a sequence is wanted", to_string(*this));
  return items;
}

size_t GraphValue::bytes() const {
  size_t total = tensor.present() ? tensor.bytes() : 0;
  for (const GraphValue& item : items) total += item.bytes();
  return total;
}

std::string to_string(const GraphValue& value) {
  switch (value.kind) {
    case ValueKind::tensor:
      return value.tensor.present() ? to_string(TensorSpec{value.tensor.dtype(), value.tensor.shape()}) : "nothing";
    case ValueKind::sequence: return fmt::format("a sequence of {}", value.items.size());
    case ValueKind::optional:
      return value.items.empty() ? "an empty optional" : "an optional of " + to_string(value.items[0]);
    default: return "a value of an unknown kind";
  }
}

}  // namespace d5
