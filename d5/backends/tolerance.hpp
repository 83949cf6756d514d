// SPDX-License-Identifier: Apache-2.0
// How far a correct kernel may be from the operator's own loops. Derived from how the operator says that rounding grows
// (Operator::rounding, magnitude, stored_magnitude), never tuned.
#pragma once

#include <span>
#include <vector>

#include "d5/backends/backend.hpp"

namespace d5 {

struct Arithmetic {
  Pass pass = Pass::forward;
  Math math = Math::strict;
  bool narrow = false;  // sums are held in the tensors' own type (Executable::narrow_arithmetic)
};

// The same inputs, outputs and output gradients with absolute values: for operators that are sums of products the
// scale of errors is the operator applied to these.
Context absolute_context(const Context&);

// Whether results of this type are final only after roundings to it.
bool is_narrow(const Arithmetic&, DType);

// For each of `values` of result `index`, of type `type`, at errors of scale `magnitude`. `kept`: the scale of what is
// stored on the way, rounded to the result's type (empty: nothing is).
std::vector<double> tolerances(const Operator&, std::span<const TensorSpec> in, size_t index, DType type,
                               const Arithmetic&, std::span<const double> values, std::span<const double> magnitude,
                               std::span<const double> kept);

}  // namespace d5
