// SPDX-License-Identifier: Apache-2.0
#include "d5/report/train_table.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "d5/core/error.hpp"
#include "d5/measure/distributions.hpp"
#include "d5/measure/survival.hpp"
#include "d5/report/case_fields.hpp"
#include "d5/report/number_text.hpp"
#include "d5/report/scaling_table.hpp"
#include "d5/report/text_table.hpp"

namespace d5 {
namespace {

using Json = nlohmann::json;

constexpr double infinity = std::numeric_limits<double>::infinity();

std::string quality_name(const Record& record) {
  return record.details.value("training", Json::object()).value("quality", "accuracy");
}

// "0.9894 (0.9872 .. 0.9912)"
std::string metric_text(const Metric& metric) {
  if (!metric.ci95) return fmt::format("{:.4g}", metric.median);
  const Interval interval{metric.ci95->first, metric.ci95->second};
  // One more than the interval supports: a share of a test set is counted, and targets are that near.
  const int decimals = std::min(6, supported_decimals(metric.median, interval) + 1);
  return fmt::format("{} ({})", number_text(metric.median, decimals), interval_text(interval, decimals));
}

Json step_of(const Record& record) {
  return record.details.value("training", Json::object()).value("step", Json::object());
}

// Parts of a step and their headings, which make up the whole; waiting for other ranks where a scheme measures it.
using Part = std::pair<const char*, const char*>;
std::vector<Part> step_parts(const std::vector<const Record*>& records) {
  std::vector<Part> parts{{"operators_s", "operators"}, {"optimizer_s", "optimizer"}, {"input_s", "input"}};
  if (std::ranges::any_of(records, [](const Record* record) { return step_of(*record).contains("waiting_s"); }))
    parts.emplace_back("waiting_s", "waiting");
  parts.emplace_back("residual_s", "rest");
  return parts;
}

std::vector<Cell> step_cells(const Json& step, const std::vector<Part>& parts) {
  const double whole = step.value("whole_s", 0.0);
  std::vector<Cell> cells{{whole > 0 ? seconds_text(whole) : ""}};
  for (const Part& part : parts) {
    const bool known = whole > 0 && step.contains(part.first);
    cells.push_back({known ? fmt::format("{:.1f} %", 100 * step[part.first].get<double>() / whole) : ""});
  }
  return cells;
}

// Always named; others where they differ.
const std::vector<std::string> shown_fields{"dataset",   "backend", "optimizer",      "batch", "threads", "scheme",
                                            "algorithm", "link",    "ranks_per_node", "ranks", "seed"};

// The fields of a case in which these differ, those that are always shown first.
std::vector<std::string> differing(const std::vector<const Record*>& records) {
  std::vector<Record> all;
  for (const Record* record : records) all.push_back({.fields = record->fields});
  std::vector<std::string> names = shown_fields;
  for (const std::string& name : field_names(all))
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  std::erase_if(names, [&](const std::string& name) {
    const std::string first = field_text(all.front().fields, name);
    return std::ranges::all_of(all, [&](const Record& record) { return field_text(record.fields, name) == first; });
  });
  return names;
}

std::string table_of(const std::string& network, const std::vector<const Record*>& records, bool colour) {
  const std::string quality = quality_name(*records.front());
  std::vector<std::string> varying = differing(records);
  std::erase(varying, "epochs");  // those that were trained have a column
  std::string constant;
  for (const std::string& field : shown_fields) {
    if (std::ranges::find(varying, field) != varying.end()) continue;
    const std::string value = field_text(records.front()->fields, field);
    if (!value.empty() && !(field == "ranks" && value == "1") && !(field == "ranks_per_node" && value == "0"))
      constant += fmt::format(", {} {}", field, value);
  }
  TextTable table;
  for (const std::string& field : varying) table.column(field);
  table.column("epochs", Align::right);
  table.column("test " + quality + (records.front()->metric("test_" + quality) ? " (95 %)" : ""));
  table.column("train loss", Align::right);
  table.column("samples/s", Align::right);
  table.column("to target", Align::right);
  table.column("step", Align::right);
  const std::vector<Part> parts = step_parts(records);
  for (const Part& part : parts) table.column(part.second, Align::right);
  std::vector<std::pair<const char*, const char*>> losses;  // metric and heading of what was lost, where anything was
  for (const auto& loss :
       {std::pair{"restarts", "restarts"}, {"lost_ranks", "lost ranks"}, {"recovery_time", "recovery"}})
    if (std::ranges::any_of(records, [&](const Record* r) { return r->metric(loss.first) != nullptr; }))
      losses.push_back(loss);
  for (const auto& loss : losses) table.column(loss.second, Align::right);
  table.column("stopped");
  for (const Record* record : records) {
    std::vector<Cell> cells;
    for (const std::string& field : varying) cells.push_back({field_text(record->fields, field)});
    const Json training = record->details.value("training", Json::object());
    const Metric* result = record->metric("test_" + quality);
    if (!result) {
      const bool bad = record->status == "failed" || record->status == "error";
      const std::string reason = record->reason.empty() ? "" : ": " + record->reason;
      table.row(std::move(cells), {record->status + reason, bad ? Tone::bad : Tone::plain});
      continue;
    }
    const Json curve = training.value("curve", Json::array());
    cells.push_back({curve.empty() ? "0" : curve.back().value("epoch", Json(0)).dump()});
    cells.push_back({metric_text(*result)});
    cells.push_back({fmt::format("{:.4g}", record->metric("train_loss")->median)});
    const Metric* rate = record->metric("throughput");
    cells.push_back({rate ? fmt::format("{:.0f}", rate->median) : ""});
    const Metric* reached = record->metric("time_to_target");
    const bool wanted = record->fields.value("target", 0.0) != 0;
    cells.push_back({reached ? seconds_text(reached->median) : wanted ? "never" : "-"});
    for (Cell& cell : step_cells(step_of(*record), parts)) cells.push_back(std::move(cell));
    for (const auto& loss : losses) {
      const Metric* metric = record->metric(loss.first);
      cells.push_back({!metric               ? "-"
                       : metric->unit == "s" ? seconds_text(metric->median)
                                             : fmt::format("{:.0f}", metric->median)});
    }
    cells.push_back({record->stopped});
    table.row(std::move(cells), {record->status == "passed" ? "" : record->status});
  }
  return fmt::format("{}{}\n{}", network, constant, table.text(colour));
}

std::string seconds_or(const std::optional<double>& value, const char* otherwise) {
  return value ? seconds_text(*value) : otherwise;
}

// What the seeds of one configuration say together; empty for a single run. `apart`: in what configurations differ.
std::string summary_of(const std::vector<const Record*>& all, const std::vector<std::string>& apart) {
  std::vector<const Record*> runs;
  std::ranges::copy_if(all, std::back_inserter(runs), [](const Record* run) {
    return run->status != "unsupported" && run->status != "skipped";  // these were never begun
  });
  if (runs.size() < 2) return {};
  std::vector<double> values;
  std::vector<Lifetime> lives;
  std::string quality;
  for (const Record* run : runs) {
    const bool failed = run->status == "failed" || run->status == "error";
    const std::string name = quality_name(*run);
    const Metric* value = run->metric("test_" + name);
    const Metric* reached = run->metric("time_to_target");
    const Json training = run->details.value("training", Json::object());
    if (value) {
      values.push_back(value->median);
      quality = name;
    }
    if (failed)  // it would not have got there in any time
      lives.push_back({infinity, false});
    else if (training.contains("seconds") || reached)
      lives.push_back({reached ? reached->median : training["seconds"].get<double>(), reached != nullptr});
  }
  const auto failed = std::ranges::count_if(lives, [](const Lifetime& life) { return std::isinf(life.time); });
  std::string text =
      fmt::format("{} {}", field_text(runs.front()->fields, "backend"), field_text(runs.front()->fields, "optimizer"));
  for (const std::string& field : apart)
    if (field != "backend" && field != "optimizer" && field != "seed")
      text += fmt::format(", {} {}", field, field_text(runs.front()->fields, field));
  text += fmt::format(", {} seeds:", runs.size());
  if (!values.empty()) {
    std::ranges::sort(values);
    const double middle = (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
    text +=
        fmt::format(" test {} median {:.4g}, from {:.4g} to {:.4g}", quality, middle, values.front(), values.back());
  }
  if (failed > 0) text += fmt::format("{} {} failed", values.empty() ? "" : ",", failed);
  if (runs.front()->fields.value("target", 0.0) != 0) {
    const SurvivalMedian median = survival_median(lives);
    const auto reached = std::ranges::count_if(lives, [](const Lifetime& life) { return life.happened; });
    text +=
        fmt::format("\n  time to {:g}: reached by {} of {}; median {} (Kaplan-Meier, 95 % {} .. {})",
                    runs.front()->fields.value("target", 0.0), reached, runs.size(), seconds_or(median.median, "never"),
                    seconds_or(median.low, "?"), seconds_or(median.high, "unbounded"));
    if (const auto score = mlperf_score(lives)) text += fmt::format("; MLPerf score {}", seconds_text(*score));
  }
  return text + "\n";
}

}  // namespace

std::vector<std::vector<const Record*>> by_configuration(std::span<const Record> records) {
  std::vector<std::pair<std::string, std::vector<const Record*>>> found;
  for (const Record& record : records) {
    if (record.kind != "train") continue;
    Json rest = record.fields;
    rest.erase("seed");
    const std::string key = rest.dump();
    auto known = std::ranges::find(found, key, &std::pair<std::string, std::vector<const Record*>>::first);
    if (known == found.end()) known = found.insert(found.end(), {key, {}});
    known->second.push_back(&record);
  }
  std::vector<std::vector<const Record*>> result;
  for (auto& [key, runs] : found) result.push_back(std::move(runs));
  return result;
}

std::string train_text(std::span<const Record> records, bool colour) {
  std::vector<std::pair<std::string, std::vector<const Record*>>> networks;
  for (const Record& record : records) {
    if (record.kind != "train") continue;
    const std::string network = field_text(record.fields, "network");
    auto known = std::ranges::find(networks, network, &std::pair<std::string, std::vector<const Record*>>::first);
    if (known == networks.end()) known = networks.insert(networks.end(), {network, {}});
    known->second.push_back(&record);
  }
  std::string text;
  for (const auto& [network, of_network] : networks)
    text += (text.empty() ? "" : "\n") + table_of(network, of_network, colour);
  std::vector<const Record*> all;
  for (const auto& [network, of_network] : networks) all.insert(all.end(), of_network.begin(), of_network.end());
  const std::vector<std::string> apart = all.empty() ? std::vector<std::string>() : differing(all);
  for (const auto& runs : by_configuration(records)) text += summary_of(runs, apart);
  text += scaling_text(records, colour);
  std::string notes;
  for (const Record& record : records)
    if (record.kind == "train")
      for (const std::string& warning : record.warnings)
        if (notes.find(warning) == std::string::npos) notes += "note: " + warning + "\n";
  return text + notes;
}

Judgement judge_seeds(std::span<const Record* const> runs, const std::string& metric, const std::string& relation,
                      double threshold) {
  const bool at_least = relation == ">=" || relation == ">";
  if (!at_least && relation != "<=" && relation != "<")
    throw UsageError("[accept] relation '{}'; legal: >= <= > <", relation);
  std::vector<double> values;
  bool known = false;
  for (const Record* run : runs) {
    const Metric* value = run->metric(metric);
    known = known || value;
    values.push_back(value ? value->median : at_least ? -infinity : infinity);
  }
  const bool optional = metric == "time_to_target" || metric == "epochs_to_target";
  if (!known && !optional) {
    std::vector<std::string> legal;
    for (const Record* run : runs)
      if (legal.empty())
        for (const auto& [name, one] : run->metrics) legal.push_back(name);
    if (!legal.empty()) fail_unknown("[accept]", "metric", metric, legal);
  }
  std::ranges::sort(values);
  const auto n = static_cast<int64_t>(values.size());
  int64_t k = 0;  // the k-th value from the bad end is beyond the median with a chance of at most 5 %
  while (k < n && binomial_cdf(k, n, 0.5) <= 0.05) ++k;
  const std::string condition = fmt::format("{} {:.4g}", relation, threshold);
  if (k == 0)
    return {Judgement::Outcome::unclear,
            fmt::format("{} {}: unclear, {} run{} give no bound; at least 5 seeds are wanted", metric, condition, n,
                        n == 1 ? "" : "s")};
  const auto holds = [&](double value) {
    return relation == ">="   ? value >= threshold
           : relation == ">"  ? value > threshold
           : relation == "<=" ? value <= threshold
                              : value < threshold;
  };
  const double low = values[static_cast<size_t>(k - 1)], high = values[static_cast<size_t>(n - k)];
  const double worse = at_least ? low : high, better = at_least ? high : low;
  const auto outcome = holds(worse)     ? Judgement::Outcome::accepted
                       : !holds(better) ? Judgement::Outcome::refused
                                        : Judgement::Outcome::unclear;
  return {outcome,
          fmt::format("{} over {} seeds: bound {:.4g} {}: {}", metric, n, worse, condition, to_string(outcome))};
}

}  // namespace d5
