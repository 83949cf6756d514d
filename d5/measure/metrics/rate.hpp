// SPDX-License-Identifier: Apache-2.0
// A rate through its times: work / median t, with the interval turned around.
#pragma once

#include "d5/measure/metric.hpp"

namespace d5 {

inline std::optional<Metric> rate(const Measured& m, double work, const std::string& unit) {
  if (!m.time) return std::nullopt;
  Metric metric{.unit = unit, .median = work / m.time->median, .n = m.time->n, .n_eff = m.time->n_eff};
  if (m.time->ci95) metric.ci95 = {work / m.time->ci95->high, work / m.time->ci95->low};
  return metric;
}

}  // namespace d5
