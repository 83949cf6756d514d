// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/trust.hpp"

#include <algorithm>
#include <cmath>

#include "d5/backends/kernel.hpp"
#include "d5/operators/gradient_check.hpp"

namespace d5 {
namespace {

bool is_finite(const std::vector<std::pair<std::string, Tensor>>& tensors) {
  return std::ranges::all_of(tensors, [](const auto& named) {
    const Tensor& tensor = named.second;
    if (!is_float(tensor.dtype())) return true;
    const Tensor wide = tensor.cast(DType::f64);
    return std::ranges::all_of(wide.template values<double>(), [](double v) { return std::isfinite(v); });
  });
}

std::string not_a_number(const Problem& problem) {
  for (const Expected& e : problem.expected)
    for (size_t i = 0; i < e.values.size(); ++i)
      if (std::isnan(e.values[i]))
        return fmt::format("{}{}[{}] is nan although every input is finite: never written, or outside its domain?",
                           e.role == Executable::Role::gradient ? "gradient of " : "", e.value,
                           e.at.empty() ? static_cast<Index>(i) : e.at[i]);
  return {};
}

std::string wrong_gradient(const std::string& op, const OperatorCase& one, uint64_t seed) {
  const auto made = registered<operators>(op).make(one.attributes);
  for (const GradientDeviation& d : check_gradient(*made, one, seed)) {
    if (d.worst <= d.tolerance) continue;
    const std::string where = d.element < 0 ? fmt::format("x{} along a random direction", d.input)
                                            : fmt::format("x{}[{}]", d.input, d.element);
    return fmt::format("gradient of {} is {:.9g} by backward, {:.9g} by central differences", where, d.analytic,
                       d.numeric);
  }
  return {};
}

}  // namespace

Trust trust_in_oracle(const std::string& op, const OperatorCase& one, const Problem& problem, const Facts& kernels,
                      uint64_t seed) {
  if (registry_origin(operators::kind, op).empty()) return {};
  if (is_finite(problem.inputs) && is_finite(problem.output_gradients))
    if (const std::string reason = not_a_number(problem); !reason.empty()) return {"failed", reason};
  if (problem.pass == Pass::backward) {
    const std::string reason = wrong_gradient(op, one, seed);
    return reason.empty() ? Trust{} : Trust{"failed", reason};
  }
  const bool own =
      std::ranges::any_of(kernels, [](const auto& kernel) { return kernel.second.ends_with(oracle_name); });
  return own ? Trust{"mistrusted", "its only implementation is its own oracle"} : Trust{};
}

}  // namespace d5
