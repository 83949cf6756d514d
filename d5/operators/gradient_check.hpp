// SPDX-License-Identifier: Apache-2.0
// The oracle's gradient against central differences in double.
//   D(h) = (L(x + h d) - L(x - h d)) / 2h   with   L = sum of w y over the outputs that take a gradient
// D(h) is off by h^2/6 L''' and by rounding / h, so h is about the cube root of the unit round-off.
#pragma once

#include <vector>

#include "d5/operators/operator.hpp"

namespace d5 {

struct GradientDeviation {
  size_t input = 0;
  double worst = 0;      // largest |D(h) - analytic|, relative to the largest |gradient . direction| of this input
  double tolerance = 0;  // on the same scale: the third-order term, from D(h) and D(2h), plus rounding / h
  Index directions = 0;  // tried: single elements and random directions
  // Where the largest deviation was: the element of the input (-1: a random direction) and both values there.
  Index element = -1;
  double analytic = 0, numeric = 0;
};

// A context with everything allocated. Values of each input are a random permutation of an even grid on its range that
// leaves out zero: distinct and well separated, so that a small step crosses no kink (Relu) and breaks no tie
// (MaxPool). Output gradients are random; every differentiable input wants its gradient.
Context separated_context(const Operator&, const OperatorCase&, uint64_t seed);

// One entry per differentiable input. Every element where there are few, else a sample of elements and random
// directions.
std::vector<GradientDeviation> check_gradient(const Operator&, const OperatorCase&, uint64_t seed);

}  // namespace d5
