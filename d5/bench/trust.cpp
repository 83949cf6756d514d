// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/trust.hpp"

#include <algorithm>
#include <cmath>

#include "d5/backends/kernel.hpp"
#include "d5/core/origin.hpp"
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

// "y0[5]": the first expected value that is so; empty: none is.
std::string first_that(const Problem& problem, bool (*is_so)(double)) {
  for (const Expected& e : problem.expected)
    if (const auto found = std::ranges::find_if(e.values, is_so); found != e.values.end()) {
      const auto i = static_cast<size_t>(found - e.values.begin());
      return fmt::format("{}[{}]", result_name(e), e.at.empty() ? static_cast<Index>(i) : e.at[i]);
    }
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
  if (!is_users<operators>(op)) return {};
  Trust trust;
  if (is_finite(problem.inputs) && is_finite(problem.output_gradients)) {
    if (const std::string place = first_that(problem, [](double v) { return std::isnan(v); }); !place.empty())
      return {"failed", place + " is nan although every input is finite: never written, or outside its domain?"};
    if (const std::string place = first_that(problem, [](double v) { return std::isinf(v); }); !place.empty())
      trust.warning = place + " is infinite although every input is finite";
  }
  if (!problem.doubt.empty()) return {"failed", problem.doubt};
  if (problem.pass == Pass::backward) {
    const std::string reason = wrong_gradient(op, one, seed);
    if (!reason.empty()) return {"failed", reason};
    return trust;
  }
  const bool own =
      std::ranges::any_of(kernels, [](const auto& kernel) { return kernel.second.ends_with(oracle_name); });
  if (own) {
    trust.status = "mistrusted";
    trust.reason = "its only implementation is its own oracle";
  }
  return trust;
}

}  // namespace d5
