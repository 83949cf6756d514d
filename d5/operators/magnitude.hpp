// SPDX-License-Identifier: Apache-2.0
// The scale of rounding errors in a result, and how the values of a case are made and run on the oracle.
#pragma once

#include "d5/operators/operator.hpp"

namespace d5 {

// Writable values of a tensor, set to zero first.
std::span<double> cleared(const Tensor&);

// Output `index`, or the gradient of input `index`, with every input and output gradient replaced by its absolute
// value.
Tensor evaluate_on_absolute_values(const Operator&, const Context&, Pass, size_t index);

// op.magnitude(), or where that is absent the operator on absolute values: what a tolerance is multiplied with.
Tensor error_scale(const Operator&, const Context&, Pass, size_t index);

}  // namespace d5
