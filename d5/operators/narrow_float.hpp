// SPDX-License-Identifier: Apache-2.0
// Rounding to an element type before the last step, where ONNX says so.
#pragma once

#include "d5/core/dtype.hpp"

namespace d5 {

// The nearest value of the type, as a double; integers and f64 leave it as it is.
double rounded_to(DType type, double value);

// What is too large for an 8-bit float: the largest value of its sign or, not saturated, infinity (NaN where the type
// has none). Any other value, and every one of another type, stays as it is.
double within_float8(DType type, double value, bool saturate);

}  // namespace d5
