// SPDX-License-Identifier: Apache-2.0
#include "d5/operators/gradient_check.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "d5/core/rng.hpp"
#include "d5/operators/magnitude.hpp"

namespace d5 {
namespace {

constexpr double epsilon = std::numeric_limits<double>::epsilon();

// Values of an input are low + (2 i + 2.5) s for i = 0 .. elements - 1: a distance of 2 s apart and, on a range
// symmetric about zero, at least s / 2 from zero.
double half_spacing(const OperatorInput& input) {
  return (input.high - input.low) / static_cast<double>(2 * input.spec.elements() + 2);
}

void fill_separated(const Tensor& tensor, const OperatorInput& input, const Rng& rng) {
  const auto values = tensor.values<double>();
  std::vector<int64_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  shuffle(order, rng);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = input.low + half_spacing(input) * (2.0 * static_cast<double>(order[i]) + 2.5);
}

// L(x + h d) - L(x - h d), output by output before summing, so that equal parts cancel exactly.
double difference(const Operator& op, const Context& base, size_t input, std::span<const double> direction, double h) {
  Context c{.inputs = base.inputs};
  c.inputs[input] = base.inputs[input].clone();
  const auto x = c.inputs[input].values<double>();
  const auto centre = base.inputs[input].values<double>();
  std::vector<Tensor> outputs[2];
  for (const int side : {0, 1}) {
    for (const Tensor& output : base.outputs)
      c.outputs.push_back(output.present() ? Tensor(output.dtype(), output.shape()) : Tensor());
    for (size_t i = 0; i < x.size(); ++i) x[i] = centre[i] + (side == 0 ? h : -h) * direction[i];
    op.forward(c);
    outputs[side] = std::move(c.outputs);
    c.outputs.clear();
  }
  double sum = 0;
  for (size_t j = 0; j < base.output_gradients.size(); ++j) {
    if (!base.output_gradients[j].present()) continue;
    const auto w = base.output_gradients[j].values<double>();
    const auto plus = outputs[0][j].values<double>(), minus = outputs[1][j].values<double>();
    for (size_t i = 0; i < w.size(); ++i) sum += w[i] * (plus[i] - minus[i]);
  }
  return sum;
}

// The rounding error in L: outputs err independently, so their bounds add in squares; 6 deviations are not exceeded.
double rounding_of_sum(const Operator& op, const OperatorCase& one, const Context& c) {
  double sum = 0;
  for (size_t j = 0; j < c.output_gradients.size(); ++j) {
    if (!c.output_gradients[j].present()) continue;
    const Rounding r = op.rounding(one.specs(), Pass::forward, j);
    const double growth = std::min(r.terms, 6 * std::sqrt(r.terms)) + r.units + 2;
    const Tensor scale = error_scale(op, c, Pass::forward, j);
    const auto s = scale.values<double>();
    const auto w = c.output_gradients[j].values<double>();
    for (size_t i = 0; i < w.size(); ++i) sum += std::pow(growth * epsilon * w[i] * s[i], 2);
  }
  return 6 * std::sqrt(sum);
}

}  // namespace

Context separated_context(const Operator& op, const OperatorCase& one, uint64_t seed) {
  Context c;
  for (size_t i = 0; i < one.inputs.size(); ++i) {
    const OperatorInput& input = one.inputs[i];
    c.inputs.emplace_back();
    c.input_gradients.emplace_back();
    if (!input.spec.present) continue;
    if (input.spec.known) {
      c.inputs[i] = input.spec.known->cast(compute_dtype(input.spec.dtype));
      continue;
    }
    Tensor values(DType::f64, input.spec.shape);
    fill_separated(values, input, Rng(seed, i));
    if (is_float(input.spec.dtype) && input.differentiable) c.input_gradients[i] = Tensor(DType::f64, input.spec.shape);
    c.inputs[i] = values.cast(compute_dtype(input.spec.dtype));
  }
  const auto outputs = op.infer(one.specs());
  for (size_t j = 0; j < outputs.size(); ++j) {
    c.outputs.push_back(j < one.outputs ? Tensor(compute_dtype(outputs[j].dtype), outputs[j].shape) : Tensor());
    c.output_gradients.emplace_back();
    if (j >= one.outputs || j >= one.differentiable_outputs || !is_float(outputs[j].dtype)) continue;
    c.output_gradients[j] = Tensor(DType::f64, outputs[j].shape);
    fill_uniform(c.output_gradients[j], Rng(seed, 1000 + j), -1, 1);
  }
  return c;
}

std::vector<GradientDeviation> check_gradient(const Operator& op, const OperatorCase& one, uint64_t seed) {
  Context c = separated_context(op, one, seed);
  if (std::ranges::none_of(c.input_gradients, &Tensor::present)) return {};
  op.forward(c);
  op.backward(c);
  const double rounding = rounding_of_sum(op, one, c);
  // As many directions as fit in about 4 10^7 operations, 4 forward passes each.
  const Cost cost = op.cost(one.specs(), Pass::forward);
  const double affordable = 1e7 / std::max({1.0, cost.flops, cost.bytes / 8});

  std::vector<GradientDeviation> result;
  for (size_t input = 0; input < one.inputs.size(); ++input) {
    if (!c.input_gradient(input).present()) continue;
    const auto gradient = c.input_gradient(input).values<double>();
    const auto elements = static_cast<Index>(gradient.size());
    const Index single = std::min<Index>(elements, std::clamp<Index>(static_cast<Index>(affordable), 2, 64));
    const Index random = elements > single ? 2 : elements > 0 ? 1 : 0;
    // Two values move towards each other by 2 h each, one moves towards zero by 2 h: both with room to spare.
    const double h = std::min(std::cbrt(epsilon), half_spacing(one.inputs[input]) / 16);
    GradientDeviation worst{.input = input, .directions = single + random};
    double scale = 0;
    const Rng rng(seed, 2000 + input);
    for (Index trial = 0; trial < single + random; ++trial) {
      std::vector<double> direction(gradient.size(), 0.0);
      Index element = -1;
      if (trial < single) {
        element = elements == single ? trial : static_cast<Index>(rng.below(trial, elements));
        direction[element] = 1;
      } else {
        for (Index i = 0; i < elements; ++i)
          direction[i] = 2 * rng.uniform(static_cast<uint64_t>(trial * elements + i)) - 1;
      }
      const double analytic = std::inner_product(gradient.begin(), gradient.end(), direction.begin(), 0.0);
      const double near = difference(op, c, input, direction, h) / (2 * h);
      const double far = difference(op, c, input, direction, 2 * h) / (4 * h);
      // The error of `near` is a third of |far - near|; x + h itself is rounded too, which shifts the step by eps |x| /
      // h.
      const double largest = std::max(std::abs(one.inputs[input].low), std::abs(one.inputs[input].high));
      double absolute = 0;
      for (Index i = 0; i < elements; ++i) absolute += std::abs(gradient[i] * direction[i]);
      scale = std::max(scale, absolute);
      const double off = std::isnan(near - analytic) ? INFINITY : std::abs(near - analytic);
      if (off > worst.worst) {
        worst.worst = off;
        // A single element is the better witness: a random direction is all of them at once.
        if (element >= 0 || worst.element < 0) {
          worst.element = element;
          worst.analytic = analytic;
          worst.numeric = near;
        }
      }
      worst.tolerance =
          std::max(worst.tolerance, std::abs(far - near) + (2 * rounding + epsilon * largest * absolute) / h);
    }
    if (scale == 0) scale = 1;  // a gradient of zero: deviations count as they are
    worst.worst /= scale;
    worst.tolerance /= scale;
    result.push_back(worst);
  }
  return result;
}

}  // namespace d5
