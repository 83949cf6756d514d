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

// In which a result is added up: in f32 at least, unless the executable rounds on the way. Then it is the narrowest
// type of the inputs and the result, also where the result is wider (the gradient of an f32 scale from bf16 images).
DType accumulator(const Arithmetic&, std::span<const TensorSpec> in, DType result);

// For each of `values` of result `index`, of type `type`, at errors of scale `magnitude`. `kept`: the scale of what is
// stored on the way, rounded to the result's type (empty: nothing is).
std::vector<double> tolerances(const Operator&, std::span<const TensorSpec> in, size_t index, DType type,
                               const Arithmetic&, std::span<const double> values, std::span<const double> magnitude,
                               std::span<const double> kept);

}  // namespace d5
