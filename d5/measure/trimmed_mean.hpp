// SPDX-License-Identifier: Apache-2.0
// Two samples by their trimmed means (Yuen, 1974): the g smallest and g largest of n values are left out, g =
// floor(trim n), h = n - 2 g stay;
//   d = (n - 1) s_w^2 / (h (h - 1)),   s_w^2 the variance of the winsorised values (those left out replaced by the
//                                      nearest that stays)
//   t = (mean_1 - mean_2) / sqrt(d_1 + d_2),   degrees = (d_1 + d_2)^2 / (d_1^2 / (h_1 - 1) + d_2^2 / (h_2 - 1))
// A run that never reached its target is infinite and counts as the slowest.
#pragma once

#include <optional>
#include <vector>

namespace d5 {

struct TrimmedTest {
  double first_mean = 0, second_mean = 0;  // trimmed
  double t = 0, degrees = 0;
  double p_smaller = 1;  // one-sided: as far below the second or further, were they equal
};
// None where fewer than two values stay, or one that stays is not finite.
std::optional<TrimmedTest> trimmed_test(std::vector<double> first, std::vector<double> second, double trim = 0.2);

}  // namespace d5
