// SPDX-License-Identifier: Apache-2.0
// Times until something happens, where some runs ended before it did (censored): the time to an accuracy over seeds.
//   S(t) = product over event times t_i <= t of (1 - d_i / n_i)              (Kaplan and Meier, 1958)
//   var log(-log S) = sum d_i / (n_i (n_i - d_i)) / (log S)^2                (Greenwood; Kalbfleisch and Prentice)
// The median is the first t with S(t) <= 1/2, its interval the times at which the limits of S cross 1/2 (Brookmeyer and
// Crowley, 1982). A run that missed its target is never dropped: that would make bad recipes look fast.
#pragma once

#include <optional>
#include <span>
#include <vector>

namespace d5 {

struct Lifetime {
  double time = 0;
  bool happened = true;  // false: censored, nothing until `time`
};

struct SurvivalPoint {
  double time = 0, share = 1;  // S just after it
  double low = 1, high = 1;    // 95 %
};
std::vector<SurvivalPoint> kaplan_meier(std::span<const Lifetime>, double confidence = 0.95);  // at every event

struct SurvivalMedian {
  std::optional<double> median;     // none: more than half of the runs never got there
  std::optional<double> low, high;  // none: the curve's limit does not come down to 1/2
};
SurvivalMedian survival_median(std::span<const Lifetime>, double confidence = 0.95);

// MLPerf Training's: without the fastest and the slowest run, the mean of the rest. A single censored run is the
// slowest; none with fewer than three runs or more than one censored.
std::optional<double> mlperf_score(std::span<const Lifetime>);

}  // namespace d5
