// SPDX-License-Identifier: Apache-2.0
// What operators without a gradient share that round nothing: they move, count, compare or compute with integers.
#pragma once

#include "d5/operators/checks.hpp"
#include "d5/operators/operator.hpp"

namespace d5 {

class Exact : public Operator {
 public:
  Rounding rounding(std::span<const TensorSpec>, Pass, size_t) const override {
    return {.terms = 0, .units = 0, .exact = true};
  }
  // Nothing rounds, so the scale is never used: the result itself.
  Tensor magnitude(const Context& c, Pass, size_t index) const override { return c.output(index).cast(DType::f64); }
};

}  // namespace d5
