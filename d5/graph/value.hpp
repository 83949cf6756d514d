// SPDX-License-Identifier: Apache-2.0
// A value of a running network: a tensor, a sequence of values, or an optional that holds one value or none.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "d5/core/tensor.hpp"

namespace d5 {

enum class ValueKind { tensor, sequence, optional, other };  // other: nothing that can be run here

struct GraphValue {
  ValueKind kind = ValueKind::tensor;
  Tensor tensor;  // of a tensor

  GraphValue() = default;
  GraphValue(Tensor value) : tensor(std::move(value)) {}  // NOLINT: a tensor is a value
  static GraphValue sequence(std::vector<GraphValue> items);
  static GraphValue optional(std::vector<GraphValue> held);

  // As what is wanted; Error says what it is instead.
  const Tensor& as_tensor() const;
  const std::vector<GraphValue>& as_sequence() const;
  // Of a sequence; of an optional: one or none. Copies share them.
  const std::vector<GraphValue>& items() const;
  size_t bytes() const;  // with what entries take beside their tensors

 private:
  GraphValue(ValueKind of, std::vector<GraphValue> items);
  std::shared_ptr<const std::vector<GraphValue>> items_;
  size_t bytes_of_items_ = 0;
};
std::string to_string(const GraphValue&);  // "f32[2x3]", "a sequence of 3", "an empty optional"

}  // namespace d5
