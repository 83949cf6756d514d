// SPDX-License-Identifier: Apache-2.0
#include "d5/graph/value.hpp"

namespace d5 {

GraphValue::GraphValue(ValueKind of, std::vector<GraphValue> items)
    : kind(of), items_(std::make_shared<const std::vector<GraphValue>>(std::move(items))) {
  for (const GraphValue& item : *items_) bytes_of_items_ += sizeof(GraphValue) + item.bytes();
}

GraphValue GraphValue::sequence(std::vector<GraphValue> items) { return {ValueKind::sequence, std::move(items)}; }

GraphValue GraphValue::optional(std::vector<GraphValue> held) { return {ValueKind::optional, std::move(held)}; }

const std::vector<GraphValue>& GraphValue::items() const {
  static const std::vector<GraphValue> none;
  return items_ ? *items_ : none;
}

const Tensor& GraphValue::as_tensor() const {
  if (kind != ValueKind::tensor) throw Error("{} is given; a tensor is wanted", to_string(*this));
  return tensor;
}

const std::vector<GraphValue>& GraphValue::as_sequence() const {
  if (kind != ValueKind::sequence) throw Error("{} is given; a sequence is wanted", to_string(*this));
  return items();
}

size_t GraphValue::bytes() const { return (tensor.present() ? tensor.bytes() : 0) + bytes_of_items_; }

std::string to_string(const GraphValue& value) {
  switch (value.kind) {
    case ValueKind::tensor:
      return value.tensor.present() ? to_string(TensorSpec{value.tensor.dtype(), value.tensor.shape()}) : "nothing";
    case ValueKind::sequence: return fmt::format("a sequence of {}", value.items().size());
    case ValueKind::optional:
      return value.items().empty() ? "an empty optional" : "an optional of " + to_string(value.items()[0]);
    default: return "a value of an unknown kind";
  }
}

}  // namespace d5
