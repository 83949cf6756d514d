// SPDX-License-Identifier: Apache-2.0
// SquaredRelu, an operator that deep500 does not have, in one file:
//   y = max(x, 0)^2      dx = 2 max(x, 0) dy
// Try it:   d5 op SquaredRelu --source examples/operator/squared_relu.cpp --shape 64x1024 --pass forward,backward
#include "d5/operators/operator.hpp"

using namespace d5;

class SquaredRelu final : public Operator {
 public:
  // Which outputs there are, from the specs of the inputs: one, like the input.
  std::vector<TensorSpec> infer(std::span<const TensorSpec> in) const override { return {{in[0].dtype, in[0].shape}}; }

  // The meaning, in double whatever the case's type is. It need not be fast: kernels are checked against it.
  void forward(Context& c) const override {
    const auto x = c.input(0).values<double>(), y = c.output(0).values<double>();
    for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] > 0 ? x[i] * x[i] : 0;
  }

  // May be left out: then --pass backward is "unsupported". It is checked by central differences.
  void backward(Context& c) const override {
    const auto x = c.input(0).values<double>(), dy = c.output_gradient(0).values<double>();
    const auto dx = c.input_gradient(0).values<double>();
    for (size_t i = 0; i < x.size(); ++i) dx[i] = x[i] > 0 ? 2 * x[i] * dy[i] : 0;
  }

  // May be left out, too: a result is one product, and on small integers it is exact. Kernels are held to this.
  Rounding rounding(std::span<const TensorSpec>, Pass, size_t) const override { return {.units = 2, .exact = true}; }
};

D5_REGISTER(operators, "SquaredRelu", SquaredRelu);
