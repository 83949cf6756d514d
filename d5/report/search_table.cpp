// SPDX-License-Identifier: Apache-2.0
#include "d5/report/search_table.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <map>

#include "d5/report/case_fields.hpp"
#include "d5/report/number_text.hpp"
#include "d5/report/text_table.hpp"

namespace d5 {
namespace {

using Json = nlohmann::json;

const Json& search_of(const Record& record) { return record.details.at("search"); }

double cost_of(const Record& record) {
  const Json cost = search_of(record).value("cost", Json());
  return cost.is_number() ? cost.get<double>() : std::numeric_limits<double>::infinity();
}

double median_or(const Record& record, const std::string& metric, double otherwise) {
  const Metric* found = record.metric(metric);
  return found ? found->median : otherwise;
}

std::string quality_of(const Record& record) {
  return record.details.value("training", Json::object()).value("quality", "");
}

// "-" where nothing was to be reached.
const char* not_reached(const Record& record) { return record.fields.value("target", 0.0) != 0 ? "never" : "-"; }

std::string number_or(const Record& record, const std::string& metric, const char* otherwise) {
  const Metric* found = record.metric(metric);
  return found ? fmt::format("{:.4g}", found->median) : otherwise;
}

// One search: the records of one value of `per`.
struct Group {
  Json per;
  std::vector<const Record*> trials, confirmations;
  const Record* best = nullptr;  // of whole trainings
  double seconds = 0;            // of all trainings, also those that failed

  void add(const Record& record) {
    const Json& search = search_of(record);
    seconds += record.details.value("training", Json::object()).value("seconds", 0.0);
    if (search.value("confirms", false)) {
      confirmations.push_back(&record);
      return;
    }
    trials.push_back(&record);
    if (search.at("budget").get<double>() < 1 || cost_of(record) == std::numeric_limits<double>::infinity()) return;
    if (!best || cost_of(record) < cost_of(*best)) best = &record;
  }
};

std::string trials_table(const Group& group, bool colour) {
  std::vector<const Record*> order = group.trials;
  std::ranges::stable_sort(order, [](const Record* a, const Record* b) {
    const double x = search_of(*a).at("budget"), y = search_of(*b).at("budget");
    return x != y ? x > y : cost_of(*a) < cost_of(*b);
  });
  std::string quality;
  for (const Record* record : order)
    if (quality.empty()) quality = quality_of(*record);
  TextTable table;
  table.column("trial", Align::right);
  for (const auto& [field, value] : search_of(*order.front()).at("values").items())
    if (!group.per.contains(field)) table.column(field, Align::right);
  table.column("length", Align::right);
  table.column("test " + quality, Align::right);
  table.column("to target", Align::right);
  table.column("training", Align::right);
  for (const Record* record : order) {
    const Json& search = search_of(*record);
    std::vector<Cell> cells{{search.at("trial").dump()}};
    for (const auto& [field, value] : search.at("values").items())
      if (!group.per.contains(field)) cells.push_back({field_text(search.at("values"), field)});
    cells.push_back({fmt::format("{:.2g}", search.at("budget").get<double>())});
    if (!record->metric("test_" + quality)) {
      table.row(std::move(cells), {record->status + (record->reason.empty() ? "" : ": " + record->reason), Tone::bad});
      continue;
    }
    cells.push_back({number_or(*record, "test_" + quality, "")});
    const Metric* reached = record->metric("time_to_target");
    cells.push_back({reached ? seconds_text(reached->median) : not_reached(*record)});
    cells.push_back({seconds_text(median_or(*record, "training_time", 0))});
    table.row(std::move(cells), record == group.best ? Cell{"the best", Tone::good} : Cell{});
  }
  return table.text(colour);
}

std::string summary_of(const Group& group) {
  if (!group.best) return "no whole training succeeded\n";
  const double alone = median_or(*group.best, "training_time", 0);
  std::string text =
      fmt::format("time to solution: {} for the best training alone, {} with the search ({} trainings)\n",
                  seconds_text(alone), seconds_text(group.seconds), group.trials.size() + group.confirmations.size());
  const std::string metric = "test_" + quality_of(*group.best);
  std::vector<double> values;
  size_t again = 0;
  for (const Record* record : group.confirmations) {
    if (search_of(*record).at("trial") != search_of(*group.best).at("trial")) continue;  // the best of fewer trials
    ++again;
    if (record->metric(metric)) values.push_back(record->metric(metric)->median);
  }
  std::ranges::sort(values);
  if (again > 0) {
    text += fmt::format("the best again with {} other seed{}:", again, again == 1 ? "" : "s");
    if (!values.empty()) text += fmt::format(" {} {:.4g} .. {:.4g}", metric, values.front(), values.back());
    if (values.size() < again) text += fmt::format("{} {} failed", values.empty() ? "" : ",", again - values.size());
    text += fmt::format(" (it was chosen with {})\n", number_or(*group.best, metric, "-"));
  }
  return text + fmt::format("run it alone: {}\n", group.best->rerun);
}

// The guideline: what to take for each value of `per`.
std::string guideline(const std::vector<Group>& groups, bool colour) {
  const Group* some = nullptr;
  for (const Group& group : groups)
    if (group.best && !some) some = &group;
  if (!some) return "no whole training succeeded\n";
  const std::string quality = quality_of(*some->best);
  TextTable table;
  for (const auto& [field, value] : search_of(*some->best).at("values").items())
    table.column(some->per.contains(field) ? field : "best " + field, Align::right);
  for (const std::string& name :
       {"test " + quality, std::string("epochs to target"), std::string("to target"), std::string("trials")})
    table.column(name, Align::right);
  for (const Group& group : groups) {
    if (!group.best) {
      table.row({}, {group.per.dump() + ": no whole training succeeded", Tone::bad});
      continue;
    }
    std::vector<Cell> cells;
    const Json& best = search_of(*group.best).at("values");
    for (const auto& [field, value] : best.items()) cells.push_back({field_text(best, field)});
    cells.push_back({number_or(*group.best, "test_" + quality, "-")});
    cells.push_back({number_or(*group.best, "epochs_to_target", not_reached(*group.best))});
    const Metric* reached = group.best->metric("time_to_target");
    cells.push_back({reached ? seconds_text(reached->median) : not_reached(*group.best)});
    cells.push_back({std::to_string(group.trials.size())});
    table.row(std::move(cells));
  }
  return table.text(colour);
}

std::vector<Group> groups_of(std::span<const Record> records) {
  std::vector<Group> groups;
  for (const Record& record : records) {
    if (!record.details.contains("search")) continue;
    const Json& per = search_of(record).at("per");
    auto group = std::ranges::find(groups, per, &Group::per);
    if (group == groups.end()) {
      groups.push_back({.per = per});
      group = groups.end() - 1;
    }
    group->add(record);
  }
  return groups;
}

}  // namespace

bool has_best(std::span<const Record> records) {
  return std::ranges::any_of(groups_of(records), [](const Group& group) { return group.best != nullptr; });
}

std::string search_text(std::span<const Record> records, bool colour) {
  const std::vector<Group> groups = groups_of(records);
  std::string text;
  for (const Group& group : groups) {
    if (group.trials.empty()) continue;
    std::string title = fmt::format("{}, by {}", field_text(group.trials.front()->fields, "network"),
                                    search_of(*group.trials.front()).at("method").get<std::string>());
    for (const auto& [field, value] : group.per.items())
      title += fmt::format(", {} {}", field, field_text(group.per, field));
    text += title + "\n" + trials_table(group, colour) + summary_of(group) + "\n";
  }
  if (groups.size() > 1) text += guideline(groups, colour);
  return text;
}

}  // namespace d5
