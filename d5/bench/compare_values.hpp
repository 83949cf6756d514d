// SPDX-License-Identifier: Apache-2.0
// Values against stored ones, as the runner of ONNX's own tests compares them:
//   |stored - value| <= atol + rtol |value|      element types and shapes agree; NaN equals NaN, infinity itself
// Strings must be equal, sequences and optionals agree entry by entry.
#pragma once

#include <string>

#include "d5/graph/value.hpp"

namespace d5 {

struct ValueTolerance {
  double relative = 1e-3, absolute = 1e-7;
  bool values = true;  // false: element types and shapes alone (random numbers)
};

// What differs, in words; empty: nothing.
std::string difference(const GraphValue& stored, const GraphValue& value, const ValueTolerance&);

}  // namespace d5
