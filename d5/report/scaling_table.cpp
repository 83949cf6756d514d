// SPDX-License-Identifier: Apache-2.0
#include "d5/report/scaling_table.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "d5/report/text_table.hpp"

namespace d5 {
namespace {

using Json = nlohmann::json;

double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

double median_metric(const std::vector<const Record*>& runs, const std::string& name) {
  std::vector<double> values;
  for (const Record* run : runs)
    if (const Metric* metric = run->metric(name)) values.push_back(metric->median);
  return values.empty() ? 0 : median_of(std::move(values));
}

// The rank that computes longest, where that is more than a tenth above the shortest.
std::string straggler_text(const Record& run) {
  const Json scheme = run.details.value("training", Json::object()).value("scheme", Json::object());
  double least = 0, most = 0;
  for (const Json& rank : scheme.value("ranks", Json::array())) {
    const double seconds = rank.value("operators_s", 0.0) + rank.value("input_s", 0.0);
    least = least == 0 ? seconds : std::min(least, seconds);
    most = std::max(most, seconds);
  }
  if (!(least > 0) || most < 1.1 * least) return "-";
  return fmt::format("rank {}, {:.2f} x", scheme.value("straggler", 0), most / least);
}

}  // namespace

std::string scaling_text(std::span<const Record> records, bool colour) {
  std::map<std::string, std::map<int64_t, std::vector<const Record*>>> studies;
  for (const Record& record : records) {
    if (record.kind != "train" || !record.metric("throughput") || !record.fields.contains("ranks")) continue;
    Json rest = record.fields;
    const int64_t ranks = rest["ranks"];
    for (const char* name : {"seed", "ranks"}) rest.erase(name);
    studies[rest.dump()][ranks].push_back(&record);
  }
  std::string text;
  for (const auto& study : studies) {
    const auto& by_ranks = study.second;
    if (by_ranks.size() < 2) continue;
    const int64_t base = by_ranks.begin()->first;
    const double base_rate = median_metric(by_ranks.begin()->second, "throughput");
    const Json& fields = by_ranks.begin()->second.front()->fields;
    const std::string scheme = fields.value("scheme", "");
    TextTable table;
    for (const char* name : {"ranks", "samples/s", "speedup", "efficiency", "sent / step", "of least"})
      table.column(name, Align::right);
    table.column("straggler");
    for (const auto& entry : by_ranks) {
      const double rate = median_metric(entry.second, "throughput"),
                   least = median_metric(entry.second, "sent_of_least");
      const double more = static_cast<double>(entry.first) / static_cast<double>(base);
      table.row({{std::to_string(entry.first)},
                 {fmt::format("{:.0f}", rate)},
                 {fmt::format("{:.2f}", rate / base_rate)},
                 {fmt::format("{:.0f} %", 100 * rate / base_rate / more)},
                 {fmt::format("{:.3g} MB", median_metric(entry.second, "sent_per_step") * 1e-6)},
                 {least > 0 ? fmt::format("{:.2f} x", least) : "-"},
                 {straggler_text(*entry.second.front())}});
    }
    text += fmt::format("{} scaling{}{}, against {} rank{} ({:.0f} samples/s)\n{}", fields.value("scaling", "strong"),
                        scheme.empty() ? "" : ", " + scheme, ", batch " + fields.at("batch").dump(), base,
                        base == 1 ? "" : "s", base_rate, table.text(colour));
  }
  return text;
}

}  // namespace d5
