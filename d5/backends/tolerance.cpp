// SPDX-License-Identifier: Apache-2.0
#include "d5/backends/tolerance.hpp"

#include <algorithm>
#include <cmath>

namespace d5 {
namespace {

Tensor absolute(const Tensor& tensor) {
  if (!tensor.present() || tensor.dtype() != DType::f64) return tensor;
  Tensor result = tensor.clone();
  for (double& v : result.values<double>()) v = std::abs(v);
  return result;
}

double growth(double terms) { return std::min(terms, 6 * std::sqrt(terms)); }

// Extra relative error of every product where the arithmetic itself is allowed to be coarser than the accumulator.
double math_round_off(Math math, DType dtype) {
  if (dtype != DType::f32) return 0;
  switch (math) {
    case Math::tf32: return 2 * 0x1p-11;
    case Math::bf16: return 2 * round_off(DType::bf16);
    default: return 0;
  }
}
// Winograd F(2x2,3x3): the product of the infinity norms of its transforms, (3 * 2 * 1.5)^2, multiplies the bound.
double math_amplification(Math math) { return math == Math::winograd ? 81 : 1; }

}  // namespace

Context absolute_context(const Context& context) {
  Context c;
  for (const Tensor& t : context.inputs) c.inputs.push_back(absolute(t));
  for (const Tensor& t : context.outputs) c.outputs.push_back(absolute(t));
  for (const Tensor& t : context.output_gradients) c.output_gradients.push_back(absolute(t));
  c.saved = context.saved;
  c.input_types = context.input_types;
  return c;
}

DType accumulator(const Arithmetic& arithmetic, std::span<const TensorSpec> in, DType result) {
  DType type = result == DType::f64 ? DType::f64 : DType::f32;
  if (!arithmetic.narrow || !is_float(result)) return type;
  if (bits(result) < bits(type)) type = result;
  for (const TensorSpec& spec : in)
    if (spec.present && is_float(spec.dtype) && bits(spec.dtype) < bits(type)) type = spec.dtype;
  return type;
}

std::vector<double> tolerances(const Operator& op, std::span<const TensorSpec> in, size_t index, DType type,
                               const Arithmetic& arithmetic, std::span<const double> values,
                               std::span<const double> magnitude, std::span<const double> kept) {
  const Rounding rounding = op.rounding(in, arithmetic.pass, index);
  const double accumulate = round_off(accumulator(arithmetic, in, type));
  const double stored = rounding.stored_outputs ? round_off(type) : 0;
  const double relative =
      ((growth(rounding.terms) + rounding.units) * accumulate + math_round_off(arithmetic.math, type) + stored) *
      math_amplification(arithmetic.math);
  // Below the smallest normal number rounding is absolute, not relative.
  const double tiny = type == DType::f64 ? 0x1p-1022 : type == DType::f16 ? 0x1p-14 : 0x1p-126;
  std::vector<double> result(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const double rounded = std::abs(values[i]) + (kept.empty() ? 0 : kept[i]);
    result[i] = relative * std::abs(magnitude[i]) + round_off(type) * rounded + tiny;
  }
  return result;
}

}  // namespace d5
