// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/train_speed.hpp"

#include <algorithm>
#include <cmath>

#include "d5/measure/distributions.hpp"

namespace d5 {
namespace {

// P(|T| <= t) = 0.95
double student_width(double degrees) {
  double low = 0, high = 100;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (student_cdf(middle, degrees) < 0.975 ? low : high) = middle;
  }
  return high;
}

}  // namespace

std::optional<double> relative_error_of_rate(std::span<const double> work, std::span<const double> seconds) {
  constexpr size_t least = 5, most = 20;
  const size_t n = seconds.size();
  if (n < least || work.size() != n) return {};
  double all_work = 0, all_seconds = 0;
  for (size_t i = 0; i < n; ++i) {
    all_work += work[i];
    all_seconds += seconds[i];
  }
  if (!(all_work > 0) || !(all_seconds > 0)) return {};
  const size_t batches = std::min(n, most);
  double squares = 0;
  for (size_t b = 0; b < batches; ++b) {
    double rest = 0;  // of what the batch did beyond the mean rate
    for (size_t i = b * n / batches; i < (b + 1) * n / batches; ++i)
      rest += work[i] - all_work / all_seconds * seconds[i];
    squares += rest * rest;
  }
  const auto k = static_cast<double>(batches);
  return student_width(k - 1) * std::sqrt(squares * k / (k - 1)) / all_work;
}

}  // namespace d5
