// SPDX-License-Identifier: Apache-2.0
// A value of a running network: a tensor, a sequence of values, or an optional that holds one value or none.
#pragma once

#include <string>
#include <vector>

#include "d5/core/tensor.hpp"

namespace d5 {

enum class ValueKind { tensor, sequence, optional, other };  // other: nothing that can be run here

struct GraphValue {
  ValueKind kind = ValueKind::tensor;
  Tensor tensor;                       // of a tensor
  std::vector<GraphValue> items = {};  // of a sequence; of an optional: one or none

  GraphValue() = default;
  GraphValue(Tensor value) : tensor(std::move(value)) {}  // NOLINT: a tensor is a value
  static GraphValue sequence(std::vector<GraphValue> items);
  static GraphValue optional(std::vector<GraphValue> held);

  // As what is wanted; Error says what it is instead.
  const Tensor& as_tensor() const;
  const std::vector<GraphValue>& as_sequence() const;
  size_t bytes() const;
};
std::string to_string(const GraphValue&);  // "f32[2x3]", "a sequence of 3", "an empty optional"

}  // namespace d5
