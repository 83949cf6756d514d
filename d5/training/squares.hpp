// SPDX-License-Identifier: Apache-2.0
// Sums of squares of floats in double, added in an order that no instruction set changes. Products of two floats are
// exact in double, so that fused and separate sums are the same bits.
#pragma once

#include "d5/core/shape.hpp"

namespace d5 {

struct Squares {
  static constexpr Index step = 32;
  double sums[4][8] = {};  // a sum waits for itself
};
void add_squares(Squares&, const float* x, Index n);  // n: a multiple of the step
// With the last few elements, fewer than a step.
double total(const Squares&, const float* rest, Index n);

}  // namespace d5
