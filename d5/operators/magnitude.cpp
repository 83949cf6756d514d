// SPDX-License-Identifier: Apache-2.0
#include "d5/operators/magnitude.hpp"

#include <algorithm>
#include <cmath>

#include "d5/operators/known.hpp"

namespace d5 {
namespace {

std::vector<Tensor> absolute(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> result;
  for (const Tensor& tensor : tensors) {
    result.push_back(tensor.clone());
    if (!tensor.present() || tensor.dtype() != DType::f64) continue;
    for (double& value : result.back().values<double>()) value = std::abs(value);
  }
  return result;
}

}  // namespace

std::span<double> cleared(const Tensor& tensor) {
  const auto values = tensor.values<double>();
  std::ranges::fill(values, 0.0);
  return values;
}

Tensor evaluate_on_absolute_values(const Operator& op, const Context& c, Pass pass, size_t index) {
  Context scale{.inputs = absolute(c.inputs), .input_types = c.input_types};
  for (const TensorSpec& spec : op.infer(known_specs(scale.inputs)))
    scale.outputs.emplace_back(compute_dtype(spec.dtype), spec.shape);
  op.forward(scale);
  if (pass == Pass::forward) return scale.outputs.at(index).cast(DType::f64);
  scale.output_gradients = absolute(c.output_gradients);
  scale.input_gradients.resize(scale.inputs.size());
  scale.input_gradients.at(index) = Tensor(DType::f64, scale.inputs.at(index).shape());
  op.backward(scale);
  return scale.input_gradients[index];
}

Tensor error_scale(const Operator& op, const Context& c, Pass pass, size_t index) {
  const Tensor own = op.magnitude(c, pass, index);
  return own.present() ? own : evaluate_on_absolute_values(op, c, pass, index);
}

}  // namespace d5
