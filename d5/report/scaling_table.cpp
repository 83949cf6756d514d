// SPDX-License-Identifier: Apache-2.0
#include "d5/report/scaling_table.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "d5/report/number_text.hpp"
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

// Of what could be hidden; what that costs the backward pass, where it is more than a twentieth of it.
std::string hidden_text(const Record& run) {
  const Json scheme = run.details.value("training", Json::object()).value("scheme", Json::object());
  if (!scheme.contains("hidden_share")) return "-";
  const double alone = scheme.value("backward_s", 0.0), beside = scheme.value("backward_beside_s", 0.0);
  std::string text = fmt::format("{:.0f} %", 100 * scheme["hidden_share"].get<double>());
  if (alone > 0 && beside > 1.05 * alone) text += fmt::format(", backward {:.2f} x", beside / alone);
  return text;
}

std::string with_interval(const Metric& metric, int more_decimals) {
  if (!metric.ci95) return fmt::format("{:.4g}", metric.median);
  const Interval interval{metric.ci95->first, metric.ci95->second};
  const int decimals = std::min(6, supported_decimals(metric.median, interval) + more_decimals);
  return fmt::format("{} ({})", number_text(metric.median, decimals), interval_text(interval, decimals));
}

// Of one run its own interval; of several their median alone, for that is of no run.
std::string rate_text(const std::vector<const Record*>& runs) {
  if (runs.size() == 1) return with_interval(*runs.front()->metric("throughput"), 0);
  return fmt::format("{:.0f}", median_metric(runs, "throughput"));
}

std::string quality_name(const Record& run) {
  return run.details.value("training", Json::object()).value("quality", "accuracy");
}

// A scheme is no faster for learning less. Ranks that replayed their computing learned nothing.
std::string quality_text(const std::vector<const Record*>& runs) {
  const std::string name = "test_" + quality_name(*runs.front());
  const Metric* const metric = runs.front()->metric(name);
  if (!metric || runs.front()->details.value("training", Json::object()).contains("replayed")) return "-";
  if (runs.size() == 1) return with_interval(*metric, 1);
  return fmt::format("{:.4g}", median_metric(runs, name));
}

// The share of a step in which the rank waits for samples.
std::string input_text(const Record& run) {
  const Json step = run.details.value("training", Json::object()).value("step", Json::object());
  const double whole = step.value("whole_s", 0.0);
  return whole > 0 ? fmt::format("{:.1f} %", 100 * step.value("input_s", 0.0) / whole) : "-";
}

// What a figure is not: real computing, or bound by the network.
std::string stamp_text(const Record& run) {
  const Json replayed = run.details.value("training", Json::object()).value("replayed", Json());
  if (!replayed.is_object()) return "";
  return replayed.value("cpu_bound", false) ? "replayed compute, cpu-bound" : "replayed compute";
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
  struct Study {
    Json fields;  // without ranks and seed
    std::map<int64_t, std::vector<const Record*>> by_ranks;
  };
  std::vector<Study> studies;
  for (const Record& record : records) {
    if (record.kind != "train" || !record.metric("throughput") || !record.fields.contains("ranks")) continue;
    Json rest = record.fields;
    const int64_t ranks = rest["ranks"];
    for (const char* name : {"seed", "ranks"}) rest.erase(name);
    auto study = std::ranges::find(studies, rest, &Study::fields);
    if (study == studies.end()) study = studies.insert(study, {std::move(rest), {}});
    study->by_ranks[ranks].push_back(&record);
  }
  std::erase_if(studies, [](const Study& study) { return study.by_ranks.size() < 2; });
  if (studies.empty()) return {};
  const Json& first = studies.front().fields;
  std::vector<std::string> varying;
  for (auto field = first.begin(); field != first.end(); ++field)
    if (!std::ranges::all_of(studies, [&](const Study& s) { return s.fields.value(field.key(), Json()) == *field; }))
      varying.push_back(field.key());

  TextTable table;
  for (const std::string& name : varying) table.column(name);
  table.column("ranks", Align::right);
  table.column("samples/s (95 %)", Align::right);
  table.column("speedup", Align::right);
  table.column("efficiency", Align::right);
  table.column("test " + quality_name(*studies.front().by_ranks.begin()->second.front()) + " (95 %)", Align::right);
  for (const char* name : {"sent / step", "of least", "input"}) table.column(name, Align::right);
  table.column("hidden");
  table.column("straggler");
  for (const Study& study : studies) {
    const int64_t base = study.by_ranks.begin()->first;
    const double base_rate = median_metric(study.by_ranks.begin()->second, "throughput");
    for (const auto& [ranks, runs] : study.by_ranks) {
      std::vector<Cell> cells;
      for (const std::string& name : varying) {
        const Json value = study.fields.value(name, Json());
        cells.push_back({value.is_string() ? value.get<std::string>() : value.dump()});
      }
      const double rate = median_metric(runs, "throughput"), least = median_metric(runs, "sent_of_least");
      const double more = static_cast<double>(ranks) / static_cast<double>(base);
      for (Cell cell :
           {Cell{std::to_string(ranks)}, Cell{rate_text(runs)}, Cell{fmt::format("{:.2f}", rate / base_rate)},
            Cell{fmt::format("{:.0f} %", 100 * rate / base_rate / more)}, Cell{quality_text(runs)},
            Cell{runs.front()->metric("sent_per_step")
                     ? fmt::format("{:.3g} MB", median_metric(runs, "sent_per_step") * 1e-6)
                     : "-"},
            Cell{least > 0 ? fmt::format("{:.2f} x", least) : "-"}, Cell{input_text(*runs.front())},
            Cell{hidden_text(*runs.front())}, Cell{straggler_text(*runs.front())}})
        cells.push_back(std::move(cell));
      table.row(std::move(cells), {stamp_text(*runs.front()), Tone::faint});
    }
  }
  const auto is_constant = [&](const char* name) { return std::ranges::find(varying, name) == varying.end(); };
  std::string title = is_constant("scaling") ? first.value("scaling", "strong") + " scaling" : "scaling";
  if (is_constant("scheme") && first.value("scheme", "") != "") title += ", " + first.value("scheme", "");
  if (is_constant("batch")) title += ", batch " + first.at("batch").dump();
  if (is_constant("link") && first.value("link", "") != "") title += ", links of " + first.value("link", "");
  const auto& bases = studies.front().by_ranks;
  if (studies.size() == 1)
    title += fmt::format(", against {} rank{} ({:.0f} samples/s)", bases.begin()->first,
                         bases.begin()->first == 1 ? "" : "s", median_metric(bases.begin()->second, "throughput"));
  else
    title += ", each against its fewest ranks";
  return title + "\n" + table.text(colour);
}

}  // namespace d5
