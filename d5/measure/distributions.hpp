// SPDX-License-Identifier: Apache-2.0
// The few probability distributions that the statistics need, accurate to about 1e-12 relative error.
#pragma once

#include <cstdint>

namespace d5 {

// P(X = k) and P(X <= k) for X ~ Bin(n, p); k may lie outside 0..n. Costs O(sqrt(n)) near the mean.
double binomial_pmf(int64_t k, int64_t n, double p);
double binomial_cdf(int64_t k, int64_t n, double p);

double normal_cdf(double z);
double normal_quantile(double p);  // 0 < p < 1

// P(X >= x) for a chi-square variable; degrees > 0.
double chi_square_tail(double x, double degrees);

double student_cdf(double t, double degrees);  // P(T <= t); degrees > 0, whole or not

}  // namespace d5
