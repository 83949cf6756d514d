// SPDX-License-Identifier: Apache-2.0
#include "d5/measure/survival.hpp"

#include <algorithm>
#include <cmath>

#include "d5/measure/distributions.hpp"

namespace d5 {

std::vector<SurvivalPoint> kaplan_meier(std::span<const Lifetime> runs, double confidence) {
  std::vector<Lifetime> sorted(runs.begin(), runs.end());
  // Of equal times those that happened come first: a run censored at t was still there at t.
  std::ranges::sort(sorted, [](const Lifetime& a, const Lifetime& b) {
    return a.time != b.time ? a.time < b.time : a.happened > b.happened;
  });
  const double z = normal_quantile(0.5 + 0.5 * confidence);
  std::vector<SurvivalPoint> curve;
  double share = 1, greenwood = 0;
  for (size_t i = 0; i < sorted.size();) {
    const auto at_risk = static_cast<double>(sorted.size() - i);
    const double time = sorted[i].time;
    double events = 0;
    for (; i < sorted.size() && sorted[i].time == time; ++i) events += sorted[i].happened ? 1 : 0;
    if (events == 0) continue;
    share *= 1 - events / at_risk;
    SurvivalPoint point{time, share, 0, 0};
    if (share > 0) {
      greenwood += events / (at_risk * (at_risk - events));
      const double width = z * std::sqrt(greenwood) / -std::log(share);
      point.low = std::pow(share, std::exp(width));
      point.high = std::pow(share, std::exp(-width));
    } else {
      point.high = curve.empty() ? 1 : curve.back().high;
    }
    curve.push_back(point);
  }
  return curve;
}

SurvivalMedian survival_median(std::span<const Lifetime> runs, double confidence) {
  SurvivalMedian result;
  const auto reach = [](std::optional<double>& value, double share, double time) {
    if (!value && share <= 0.5) value = time;
  };
  for (const SurvivalPoint& point : kaplan_meier(runs, confidence)) {
    reach(result.median, point.share, point.time);
    reach(result.low, point.low, point.time);
    reach(result.high, point.high, point.time);
  }
  return result;
}

std::optional<double> mlperf_score(std::span<const Lifetime> runs) {
  const auto censored = std::ranges::count_if(runs, [](const Lifetime& run) { return !run.happened; });
  if (runs.size() < 3 || censored > 1) return {};
  std::vector<double> times;
  for (const Lifetime& run : runs)
    if (run.happened) times.push_back(run.time);
  std::ranges::sort(times);
  if (censored == 0) times.pop_back();
  double sum = 0;
  for (size_t i = 1; i < times.size(); ++i) sum += times[i];
  return sum / static_cast<double>(times.size() - 1);
}

}  // namespace d5
