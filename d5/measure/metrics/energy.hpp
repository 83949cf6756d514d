// SPDX-License-Identifier: Apache-2.0
// Joules by iteration from reports {"joules", "iterations"}, one a launch.
#pragma once

#include "d5/measure/metric.hpp"

namespace d5 {

inline std::optional<Metric> energy_per_iteration(const Measured& m) {
  if (m.reports.empty()) return std::nullopt;
  std::vector<double> launches;
  for (const nlohmann::json& report : m.reports)
    launches.push_back(report.at("joules").get<double>() / report.at("iterations").get<double>());
  const Summary summary = summarize(launches);
  Metric metric{.unit = "J", .median = summary.median, .n = summary.n, .n_eff = summary.n_eff};
  if (summary.ci95) metric.ci95 = {summary.ci95->low, summary.ci95->high};
  return metric;
}

}  // namespace d5
