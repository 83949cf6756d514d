// SPDX-License-Identifier: Apache-2.0
// A problem meets an executable: inputs in, results out and compared.
#include <algorithm>
#include <cmath>

#include "d5/bench/problem.hpp"
#include "d5/core/convert.hpp"

namespace d5 {

void write_inputs(const Problem& problem, Executable& executable) {
  for (const auto& [value, tensor] : problem.inputs) executable.write(Executable::Role::value, value, tensor);
  for (const auto& [value, tensor] : problem.output_gradients)
    executable.write(Executable::Role::gradient, value, tensor);
}

void poison_results(const Problem& problem, Executable& executable) {
  for (const Expected& e : problem.expected) {
    Tensor poison = executable.read(e.role, e.value);
    poison.fill_bytes(0xff);
    executable.write(e.role, e.value, poison);
  }
}

CheckResult check_results(const Problem& problem, Executable& executable) {
  CheckResult result;
  double largest = 0;
  for (const Expected& e : problem.expected) {
    const Tensor actual = executable.read(e.role, e.value);
    const auto fail = [&](size_t i, Index at, double got) {
      if (!result.passed) return;
      result.passed = false;
      result.reason = fmt::format("{}[{}] is {:.9g}, expected {:.9g} +- {:.2g}", result_name(e), at, got, e.values[i],
                                  e.tolerance[i]);
    };
    if (actual.elements() != e.elements) {
      result.passed = false;
      result.reason = fmt::format("{} has {} elements, expected {}", e.value, actual.elements(), e.elements);
      return result;
    }
    if (actual.dtype() != e.dtype || actual.shape() != e.shape) {
      result.passed = false;
      result.reason = fmt::format("{} is {}[{}], expected {}[{}]", result_name(e), name(actual.dtype()),
                                  to_string(actual.shape()), name(e.dtype), to_string(e.shape));
      return result;
    }
    // What is exact is compared after the one rounding that the type asks for.
    for (size_t i = 0; i < e.values.size(); ++i) {
      const Index at = e.at.empty() ? static_cast<Index>(i) : e.at[i];
      const double got = load_as_double(e.dtype, actual.data(), at);
      double wanted = e.values[i];
      if (e.exact) {
        alignas(8) unsigned char cell[8] = {};
        store_from_double(e.dtype, cell, 0, wanted);
        wanted = load_as_double(e.dtype, cell, 0);
      }
      largest = std::max(largest, std::abs(wanted));
      ++result.compared;
      if (std::isnan(wanted) && std::isnan(got)) continue;
      if (wanted == got) continue;
      const double error = std::abs(got - wanted);
      if (!(error <= e.tolerance[i])) fail(i, at, got);
      result.l1 += error;
      result.l2 += error * error;
      result.linf = std::isnan(error) ? INFINITY : std::max(result.linf, error);
      if (e.tolerance[i] > 0) result.worst_share = std::max(result.worst_share, error / e.tolerance[i]);
    }
    result.elements += e.elements;
  }
  result.l2 = std::sqrt(result.l2);
  result.linf_relative = largest > 0 ? result.linf / largest : 0;
  result.powerless = result.compared == 0 || largest == 0;
  return result;
}

}  // namespace d5
