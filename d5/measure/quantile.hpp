// SPDX-License-Identifier: Apache-2.0
// Quantiles with confidence intervals that assume no distribution: the ends are order statistics of the sample.
#pragma once

#include <optional>
#include <span>
#include <vector>

namespace d5 {

struct Interval {
  double low, high;
};

enum class Side { lower, upper };

// Interpolated between order statistics (type 7 of Hyndman and Fan, 1996). `sorted` is ascending and not empty.
double quantile(std::span<const double> sorted, double p);
double median(std::vector<double> values);

// Two-sided interval [x_(l), x_(u)] of quantile p. With n_eff equal to the sample size the ranks are exact: l is the
// largest with P(Bin(n,p) < l) <= alpha/2, u the smallest with P(Bin(n,p) >= u) <= alpha/2. With a smaller n_eff the
// ranks move out to n p +- z sqrt(n p (1-p) n / n_eff). Empty where a rank does not exist, for n or for n_eff samples.
std::optional<Interval> quantile_interval(std::span<const double> sorted, double p, double n_eff,
                                          double confidence = 0.95);

// One end of the above with the whole alpha on its side: what a gate compares with its threshold.
std::optional<double> quantile_bound(std::span<const double> sorted, double p, Side side, double n_eff,
                                     double confidence = 0.95);

// How many independent samples say as much about the median as these: n / (1 + 2 sum_k rho_k), at most n, with rho_k
// the autocorrelation of the indicator 1{x <= median}, summed to the first non-positive pair. On the careful side: the
// bias of rho_k and the uncertainty of the sum are both counted, so 160 independent samples give about 130. Below about
// 30 the estimate, and with it the interval, is rough.
double effective_samples(std::span<const double> in_time_order);

}  // namespace d5
