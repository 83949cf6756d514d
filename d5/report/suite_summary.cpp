// SPDX-License-Identifier: Apache-2.0
#include "d5/report/suite_summary.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "d5/report/case_fields.hpp"
#include "d5/report/text_table.hpp"

namespace d5 {
namespace {

// What is compared within a group; the first always names a member, the others where they differ.
const std::vector<std::string> member_fields = {"backend", "device", "kernel"};

struct Part {  // of a suite: one element type, pass and number of threads
  std::string heading;
  std::vector<const Record*> records;
};

std::vector<Part> parts_of(std::span<const Record> records) {
  std::vector<Part> parts;
  for (const Record& record : records) {
    std::set<std::string> names;
    for (const nlohmann::json& label : record.details.value("suites", nlohmann::json::array()))
      names.insert(one_line(label.value("suite", "")));
    for (const std::string& name : names) {
      const std::string threads = field_text(record.fields, "threads");
      const std::string heading = fmt::format("Suite {}, {} {}, {} thread{}", name, field_text(record.fields, "dtype"),
                                              field_text(record.fields, "pass"), threads, threads == "1" ? "" : "s");
      auto part = std::ranges::find(parts, heading, &Part::heading);
      if (part == parts.end()) part = parts.insert(parts.end(), {heading, {}});
      part->records.push_back(&record);
    }
  }
  return parts;
}

std::string member_of(const Record& record, const std::vector<std::string>& differing) {
  std::string name;
  for (const std::string& field : differing) name += (name.empty() ? "" : " ") + field_text(record.fields, field);
  return name;
}

std::vector<std::string> differing_fields(const Part& part) {
  std::vector<std::string> result;
  for (const std::string& field : member_fields) {
    std::set<std::string> values;
    for (const Record* record : part.records) values.insert(field_text(record->fields, field));
    if (field == "backend" || values.size() > 1) result.push_back(field);
  }
  return result;
}

std::string seconds_text(double seconds) {
  return seconds >= 1 ? fmt::format("{:.3g} s", seconds) : fmt::format("{:.3g} ms", 1e3 * seconds);
}

std::string part_text(const Part& part) {
  const std::vector<std::string> differing = differing_fields(part);
  std::vector<std::string> members;
  std::map<std::string, std::map<std::string, int>> counts;               // member -> status -> cases
  std::map<std::string, std::map<std::string, double>> seconds_in_group;  // group -> member -> median
  for (const Record* record : part.records) {
    const std::string member = member_of(*record, differing);
    if (std::ranges::find(members, member) == members.end()) members.push_back(member);
    ++counts[member][record->status];
    const Metric* time = record->metric("time");
    if (time && record->status == "passed") seconds_in_group[record->group][member] = time->median;
  }

  std::map<std::string, double> total, log_ratio;
  int common = 0;
  for (const auto& [group, seconds] : seconds_in_group) {
    if (seconds.size() != members.size()) continue;
    ++common;
    for (const auto& [member, median] : seconds) {
      total[member] += median;
      log_ratio[member] += std::log(median / seconds.at(members.front()));
    }
  }

  TextTable table;
  table.column("backend");
  for (const char* status : {"passed", "mistrusted", "failed", "error", "skipped", "unsupported"})
    table.column(status, Align::right);
  if (common > 0) {
    table.column("total time", Align::right);
    if (members.size() > 1) table.column("geometric mean of ratios", Align::right);
  }
  for (const std::string& member : members) {
    std::vector<Cell> cells{{member}};
    for (const char* status : {"passed", "mistrusted", "failed", "error", "skipped", "unsupported"})
      cells.push_back({std::to_string(counts[member][status])});
    if (common > 0) {
      cells.push_back({seconds_text(total[member])});
      if (members.size() > 1)
        cells.push_back(
            {member == members.front() ? "-" : fmt::format("{:.3g}x", std::exp(log_ratio[member] / common))});
    }
    table.row(std::move(cells));
  }
  std::string result = part.heading + "\n" + table.text(false);
  if (common > 0 && members.size() > 1) {
    result += fmt::format("total over {} case{} measured on {}:", common, common == 1 ? "" : "s",
                          members.size() == 2 ? "both" : "all");
    for (size_t i = 0; i < members.size(); ++i)
      result += fmt::format("{} {} {}{}", i ? "," : "", members[i], seconds_text(total[members[i]]),
                            i ? fmt::format(" ({:.3g}x)", total[members[i]] / total[members[0]]) : "");
    result += "\n";
  }
  return result;
}

}  // namespace

std::string suite_summary(std::span<const Record> records) {
  std::string result;
  for (const Part& part : parts_of(records)) result += "\n" + part_text(part);
  return result;
}

}  // namespace d5
