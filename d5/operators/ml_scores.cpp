// SPDX-License-Identifier: Apache-2.0
#include "d5/operators/ml_scores.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "d5/operators/strings.hpp"

namespace d5 {
namespace {

void softmax(std::span<double> scores, bool keep_zeros) {
  const double top = *std::ranges::max_element(scores);
  double sum = 0;
  for (double& s : scores) {
    s = keep_zeros && std::abs(s) <= 1e-7 ? s * std::exp(-top) : std::exp(s - top);
    sum += s;
  }
  for (double& s : scores) s = sum == 0 ? 0.5 : s / sum;
}

// The inverse of the normal distribution: erf^-1 by Winitzki's formula, then Newton's steps.
double probit(double p) {
  if (!(p > 0 && p < 1)) return p <= 0 ? -HUGE_VAL : HUGE_VAL;
  const double x = 2 * p - 1, l = std::log((1 - x) * (1 + x)), a = 0.147, b = 2 / (std::numbers::pi * a) + l / 2;
  double y = std::copysign(std::sqrt(std::sqrt(b * b - l / a) - b), x);
  for (int i = 0; i < 4; ++i) y -= (std::erf(y) - x) / (2 * std::numbers::inv_sqrtpi * std::exp(-y * y));
  return std::numbers::sqrt2 * y;
}

}  // namespace

Transform parse_transform(const std::string& text, std::string_view place) {
  const std::vector<std::string> names{"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  const auto found = std::ranges::find(names, text);
  if (found == names.end()) fail_unknown(place, "post_transform", text, names);
  return static_cast<Transform>(found - names.begin());
}

void apply_transform(Transform transform, std::span<double> scores) {
  if (scores.empty()) return;
  switch (transform) {
    case Transform::none: return;
    case Transform::softmax: return softmax(scores, false);
    case Transform::softmax_zero: return softmax(scores, true);
    case Transform::logistic:
      for (double& s : scores) s = 1 / (1 + std::exp(-s));
      return;
    case Transform::probit:
      for (double& s : scores) s = probit(s);
  }
}

ClassLabels::ClassLabels(const Attributes& a, const char* integers, const char* words, std::string_view place)
    : integers_(a.integers(integers)), words_(text_list(a, words, place)) {
  if (integers_.empty() == words_.empty())
    throw UsageError("{} {} and {}: labels of one kind are wanted", place, integers, words);
}

void ClassLabels::store(const Tensor& to, Index at, size_t label) const {
  if (words_.empty())
    to.values<int64_t>()[at] = integers_[label];
  else
    to.values<std::string>()[at] = words_[label];
}

}  // namespace d5
