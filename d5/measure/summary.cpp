// SPDX-License-Identifier: Apache-2.0
#include "d5/measure/summary.hpp"

#include <algorithm>
#include <cmath>

#include "d5/core/error.hpp"
#include "d5/measure/distributions.hpp"
#include "d5/measure/shape_tests.hpp"

namespace d5 {
namespace {

// A long run makes any trifle significant, so a warning needs a size too.
constexpr double alpha = 0.001;
constexpr double least_effect = 0.01;  // of the median
constexpr double least_dip = 0.02;     // a share of the samples that would have to move to leave one mode

// The distance between the medians of the two groups that differ most (largest variance between groups, Otsu 1979).
// The outer 5 % are left out: a few outliers are no mode.
double mode_distance(std::span<const double> sorted) {
  const size_t cut = sorted.size() / 20;
  const std::span<const double> core = sorted.subspan(cut, sorted.size() - 2 * cut);
  double total = 0;
  for (double x : core) total += x;
  double best = -1, sum = 0;
  size_t split = 1;
  const double size = static_cast<double>(core.size());
  for (size_t k = 1; k < core.size(); ++k) {
    sum += core[k - 1];
    const double left = static_cast<double>(k), right = size - left;
    const double difference = sum / left - (total - sum) / right;
    const double between = left * right * difference * difference;
    if (between > best) {
      best = between;
      split = k;
    }
  }
  return quantile(core.subspan(split), 0.5) - quantile(core.first(split), 0.5);
}

void warn_of_modes(Summary& summary, std::span<const double> sorted) {
  const double dip = dip_statistic(sorted);
  if (dip < least_dip || dip_p_value(dip, summary.n_eff) > alpha) return;
  const double effect = mode_distance(sorted) / std::abs(summary.median);
  if (!(effect >= least_effect)) return;
  summary.warnings.push_back(fmt::format(
      "bimodal: two modes {:.1f} % of the median apart (dip {:.3f}, p <= 0.001); the median describes neither",
      100 * effect, dip));
}

void warn_of_drift(Summary& summary, std::span<const double> in_time_order) {
  const Trend trend = mann_kendall(in_time_order);
  const double total = trend.slope * static_cast<double>(summary.n - 1);
  const double effect = total / std::abs(summary.median);
  if (!(std::abs(effect) >= least_effect)) return;
  // Correlated samples drift by chance; the correlation is that of what the trend leaves (Hamed and Rao, 1998).
  std::vector<double> rest(in_time_order.begin(), in_time_order.end());
  for (size_t i = 0; i < rest.size(); ++i) rest[i] -= trend.slope * static_cast<double>(i);
  const double z = trend.z * std::sqrt(effective_samples(rest) / static_cast<double>(summary.n));
  const double p = 2 * normal_cdf(-std::abs(z));
  if (p > alpha) return;
  summary.warnings.push_back(fmt::format(
      "drift: {:+.1f} % of the median from first to last sample (Mann-Kendall p = {:.1g})", 100 * effect, p));
}

void warn_of_dependence(Summary& summary) {
  if (summary.n_eff >= 30 || summary.n_eff >= 0.25 * static_cast<double>(summary.n)) return;
  summary.warnings.push_back(
      fmt::format("dependent samples: {:.0f} effective of {}; intervals are rough below 30", summary.n_eff, summary.n));
}

}  // namespace

Summary summarize(std::span<const double> in_time_order) {
  if (in_time_order.empty()) throw Error("[summary] no samples");
  for (double x : in_time_order) {
    if (!std::isfinite(x)) throw Error("[summary] a sample is {}; legal: finite numbers", x);
  }
  std::vector<double> sorted(in_time_order.begin(), in_time_order.end());
  std::sort(sorted.begin(), sorted.end());
  Summary summary{.n = sorted.size(),
                  .n_eff = effective_samples(in_time_order),
                  .minimum = sorted.front(),
                  .maximum = sorted.back(),
                  .median = quantile(sorted, 0.5)};
  summary.ci95 = quantile_interval(sorted, 0.5, summary.n_eff);
  for (double p : {0.05, 0.25, 0.75, 0.95, 0.99}) {
    summary.tails.push_back({p, quantile(sorted, p), quantile_interval(sorted, p, summary.n_eff)});
  }
  warn_of_dependence(summary);
  warn_of_modes(summary, sorted);
  warn_of_drift(summary, in_time_order);
  return summary;
}

}  // namespace d5
