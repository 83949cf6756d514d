// SPDX-License-Identifier: Apache-2.0
#include "d5/report/step_table.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "d5/report/case_fields.hpp"
#include "d5/report/number_text.hpp"
#include "d5/report/text_table.hpp"

namespace d5 {
namespace {

struct Column {
  std::string metric, header;
  double scale;
};

std::string cell_text(const Metric& metric, double scale) {
  std::optional<Interval> interval;
  if (metric.ci95) interval = Interval{metric.ci95->first * scale, metric.ci95->second * scale};
  const double value = metric.median * scale;
  return number_text(value, supported_decimals(value, interval));
}

}  // namespace

bool is_of_step_table(const std::string& metric) {
  return metric.starts_with("latency_") || metric.starts_with("memory_") || metric == "energy_per_sample";
}

std::string step_table(std::span<const Record* const> records, const std::vector<std::string>& columns,
                       const std::function<std::string(const std::vector<std::string>&)>& mark, bool colour) {
  std::vector<double> times;
  for (const Record* r : records)
    if (const Metric* time = r->metric("latency_p50") ? r->metric("time") : nullptr;
        time && std::isfinite(time->median))
      times.push_back(time->median);
  if (times.empty()) return {};
  const auto [unit, scale] = time_unit(median(times));
  constexpr double per_mebibyte = 1.0 / (1 << 20);
  const std::vector<Column> all{
      {"latency_p50", fmt::format("p50 {}", unit), scale}, {"latency_p90", fmt::format("p90 {}", unit), scale},
      {"latency_p99", fmt::format("p99 {}", unit), scale}, {"memory_planned", "planned MiB", per_mebibyte},
      {"memory_peak", "peak MiB", per_mebibyte},           {"energy_per_sample", "J/sample", 1}};
  TextTable table;
  for (const std::string& name : columns) table.column(name);
  for (const Column& column : all) table.column(column.header, Align::right);
  for (const Record* r : records) {
    if (!r->metric("latency_p50") || (r->status != "passed" && r->status != "mistrusted")) continue;
    std::vector<Cell> cells;
    for (const std::string& name : columns) cells.push_back({field_text(r->fields, name)});
    for (const Column& column : all) {
      const Metric* metric = r->metric(column.metric);
      cells.push_back({metric ? cell_text(*metric, column.scale) : ""});
    }
    std::vector<std::string> reasons;
    const nlohmann::json unavailable = r->details.value("unavailable", nlohmann::json::object());
    for (const auto& [name, reason] : unavailable.items())
      if (reason.is_string()) reasons.push_back(fmt::format("{}: unavailable: {}", name, reason.get<std::string>()));
    table.row(std::move(cells), {mark(reasons)});
  }
  return "one step: quantiles of its time, memory, energy\n" + table.text(colour);
}

}  // namespace d5
