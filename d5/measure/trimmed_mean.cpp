// SPDX-License-Identifier: Apache-2.0
#include "d5/measure/trimmed_mean.hpp"

#include <algorithm>
#include <cmath>

#include "d5/measure/distributions.hpp"

namespace d5 {
namespace {

struct Trimmed {
  double mean = 0, variance = 0;  // of the mean
  double kept = 0;
};

std::optional<Trimmed> trimmed(std::vector<double> values, double trim) {
  std::ranges::sort(values);
  const size_t n = values.size(), outside = static_cast<size_t>(trim * static_cast<double>(n) + 1e-9);
  if (n < 2 * outside + 2 || !std::isfinite(values[outside]) || !std::isfinite(values[n - outside - 1])) return {};
  const double kept = static_cast<double>(n - 2 * outside);
  Trimmed result{.kept = kept};
  for (size_t i = outside; i < n - outside; ++i) result.mean += values[i] / kept;
  for (double& value : values) value = std::clamp(value, values[outside], values[n - outside - 1]);
  double mean = 0, squares = 0;
  for (const double value : values) mean += value / static_cast<double>(n);
  for (const double value : values) squares += (value - mean) * (value - mean);
  result.variance = squares / (kept * (kept - 1));
  return result;
}

}  // namespace

std::optional<TrimmedTest> trimmed_test(std::vector<double> first, std::vector<double> second, double trim) {
  const auto a = trimmed(std::move(first), trim), b = trimmed(std::move(second), trim);
  if (!a || !b) return {};
  TrimmedTest result{.first_mean = a->mean, .second_mean = b->mean};
  const double variance = a->variance + b->variance, difference = a->mean - b->mean;
  if (variance == 0) {  // all runs alike: any difference is beyond chance
    result.p_smaller = difference < 0 ? 0 : 1;
    return result;
  }
  result.t = difference / std::sqrt(variance);
  result.degrees =
      variance * variance / (a->variance * a->variance / (a->kept - 1) + b->variance * b->variance / (b->kept - 1));
  result.p_smaller = student_cdf(result.t, result.degrees);
  return result;
}

}  // namespace d5
