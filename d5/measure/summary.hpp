// SPDX-License-Identifier: Apache-2.0
// What a record says about one series of samples. Everything is computed from the raw samples, in time order.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "d5/measure/quantile.hpp"

namespace d5 {

struct Quantile {
  double p;
  double value;
  std::optional<Interval> interval;  // empty: too few samples, print "n/a"
};

struct Summary {
  size_t n;
  double n_eff;
  double minimum, maximum, median;
  std::optional<Interval> ci95;
  std::vector<Quantile> tails;  // p5, p25, p75, p95, p99
  std::vector<std::string>
      warnings;  // few effective samples; two modes or drift, significant at 0.001 and >= 1 % of the median
};

Summary summarize(std::span<const double> in_time_order);

}  // namespace d5
