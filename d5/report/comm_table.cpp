// SPDX-License-Identifier: Apache-2.0
#include "d5/report/comm_table.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "d5/report/case_fields.hpp"
#include "d5/report/number_text.hpp"
#include "d5/report/text_table.hpp"
#include "d5/report/verdicts.hpp"

namespace d5 {
namespace {

using Json = nlohmann::json;

std::string heading(const Record& record) {
  const Json& f = record.fields;
  std::string text = fmt::format("{} {}", f["collective"].get<std::string>(), f["dtype"].get<std::string>());
  static constexpr std::array reduced{"allreduce", "reduce", "reduce_scatter"};
  if (std::ranges::find(reduced, f["collective"]) != reduced.end()) text += " " + f["reduction"].get<std::string>();
  if (f.contains("topology")) text += " " + f["topology"].get<std::string>();
  text += fmt::format(", {} ranks, {}", f["ranks"].get<int>(), f["communicator"].get<std::string>());
  const std::string hosts = f.value("hosts", "");
  if (!hosts.empty()) text += " on " + hosts;
  if (f["density"] != 1.0) text += fmt::format(", density {:g}", f["density"].get<double>());
  return text;
}

std::string about(const Record& record) {
  std::string text;
  if (record.details.contains("library") && record.details["library"].is_string())
    text = record.details["library"].get<std::string>();
  if (record.details.contains("ping_pong")) {
    const Json& p = record.details["ping_pong"];
    const double beta = p["beta_s_per_byte"];
    text += fmt::format("; ping-pong {:.3g} us + {}", 1e6 * p["alpha_s"].get<double>(),
                        beta > 0 ? fmt::format("bytes / {:.3g} GB/s", 1e-9 / beta) : "nothing for bytes");
  }
  return text;
}

std::string rate(const Record& record, const char* name) {
  const Metric* metric = record.metric(name);
  return metric ? fmt::format("{:.3g}", metric->median * 1e-9) : "-";
}

// Numbers of footnotes; equal texts share one.
std::string mark(std::vector<std::string>& notes, const std::vector<std::string>& texts) {
  std::string marks;
  for (const std::string& text : texts) {
    const auto found = std::ranges::find(notes, text);
    marks += fmt::format("{}[{}]", marks.empty() ? "" : " ", found - notes.begin() + 1);
    if (found == notes.end()) notes.push_back(text);
  }
  return marks;
}

void add(TextTable& table, const Record& record, const std::optional<Standing>& standing, size_t number,
         const std::string& marks) {
  const std::string algorithm = record.fields["algorithm"];
  const std::string bytes = fmt::format("{}", record.fields["bytes"].get<int64_t>());
  if (record.status != "passed") {
    table.row({{bytes}, {algorithm}},
              {fmt::format("{}: {}{}{}", record.status, record.reason, marks.empty() ? "" : "  ", marks), Tone::bad});
    return;
  }
  const Metric& time = *record.metric("time");
  const auto [unit, scale] = time_unit(time.median);
  std::optional<Interval> interval;
  if (time.ci95) interval = Interval{time.ci95->first * scale, time.ci95->second * scale};
  const int decimals = supported_decimals(time.median * scale, interval);
  const Json traffic = record.details.value("traffic", Json::object());
  const Json over = traffic.value("over_least", Json());
  std::string against = "-";
  if (standing && standing->base != number && std::isfinite(standing->comparison.ratio))
    against = standing->comparison.interval ? verdict_text(standing->comparison)
                                            : fmt::format("{:.3f} of its time", standing->comparison.ratio);
  std::string name = algorithm;
  if (record.details.contains("chosen")) name += fmt::format(" ({})", record.details["chosen"].get<std::string>());
  table.row({{bytes},
             {name},
             {fmt::format("{} {}", number_text(time.median * scale, decimals), unit)},
             {interval ? interval_text(*interval, decimals) : "n/a"},
             {fmt::format("{:.3g} {}", record.details["tails"]["p95"]["value"].get<double>() * scale, unit)},
             {rate(record, "algbw")},
             {rate(record, "busbw")},
             {record.bound ? fmt::format("{:.0f} %", 100 * record.bound->share) : "-"},
             {over.is_number() ? fmt::format("{:.2f}x", over.get<double>()) : "-"},
             {"0"},
             {against}},
            {marks});
}

// The algorithm that the rows of a block are compared with; where sizes differ in that, each with its first.
std::string base_name(std::span<const Record> records, size_t first,
                      std::span<const std::optional<Standing>> standings) {
  std::set<std::string> names;
  for (const auto& standing : standings)
    if (standing) names.insert(records[standing->base].fields["algorithm"]);
  if (names.empty()) return records[first].fields["algorithm"];
  return names.size() == 1 ? *names.begin() : "the first";
}

}  // namespace

std::string comm_table(std::span<const Record> records, bool colour) {
  const auto standings = verdicts(records);
  std::string text;
  for (size_t first = 0; first < records.size();) {
    size_t end = first;
    while (end < records.size() && heading(records[end]) == heading(records[first])) ++end;
    size_t shown = first;
    while (shown + 1 < end && records[shown].status != "passed") ++shown;
    text += fmt::format("{}{}    {}\n", first ? "\n" : "", heading(records[first]), about(records[shown]));
    TextTable table;
    table.column("bytes", Align::right);
    table.column("algorithm");
    for (const char* column : {"median", "95 % CI", "p95", "algbw GB/s", "busbw GB/s", "of bound", "sent", "wrong"})
      table.column(column, Align::right);
    table.column("against " + base_name(records, first, std::span(standings).subspan(first, end - first)));
    std::vector<std::string> notes;
    for (size_t i = first; i < end; ++i) add(table, records[i], standings[i], i, mark(notes, records[i].warnings));
    text += table.text(colour);
    for (size_t i = 0; i < notes.size(); ++i) text += fmt::format("[{}] {}\n", i + 1, one_line(notes[i]));
    first = end;
  }
  return text;
}

}  // namespace d5
