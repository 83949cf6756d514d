// SPDX-License-Identifier: Apache-2.0
#include "d5/report/csv.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "d5/report/case_fields.hpp"

namespace d5 {
namespace {

std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string result = "\"";
  for (char c : text) {
    if (c == '"') result += '"';
    result += c;
  }
  return result + "\"";
}

std::string number(double value) { return std::isfinite(value) ? fmt::format("{}", value) : ""; }

// In the order of first appearance, which is the order to be shown.
std::vector<std::string> metric_names(std::span<const Record> records) {
  std::vector<std::string> names;
  for (const Record& r : records) {
    for (const auto& [name, metric] : r.metrics) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

std::string line(const std::vector<std::string>& cells) {
  std::string result;
  for (size_t i = 0; i < cells.size(); ++i) result += (i ? "," : "") + quoted(cells[i]);
  return result + "\n";
}

}  // namespace

std::string csv_text(std::span<const Record> records) {
  const std::vector<std::string> fields = field_names(records), metrics = metric_names(records);
  std::vector<std::string> header = {"kind"};
  header.insert(header.end(), fields.begin(), fields.end());
  header.insert(header.end(), {"status", "reason"});
  for (const std::string& m : metrics) {
    for (const char* part : {"_median", "_low", "_high", "_unit"}) header.push_back(m + part);
  }
  header.insert(header.end(), {"bound_name", "bound_value", "bound_unit", "bound_share", "samples", "stopped",
                               "warnings", "group", "environment", "rerun"});
  std::string result = line(header);
  for (const Record& r : records) {
    std::vector<std::string> cells = {r.kind};
    for (const std::string& f : fields) cells.push_back(field_text(r.fields, f));
    cells.insert(cells.end(), {r.status, r.reason});
    for (const std::string& name : metrics) {
      const Metric* m = r.metric(name);
      cells.push_back(m ? number(m->median) : "");
      cells.push_back(m && m->ci95 ? number(m->ci95->first) : "");
      cells.push_back(m && m->ci95 ? number(m->ci95->second) : "");
      cells.push_back(m ? m->unit : "");
    }
    cells.push_back(r.bound ? r.bound->name : "");
    cells.push_back(r.bound ? number(r.bound->value) : "");
    cells.push_back(r.bound ? r.bound->unit : "");
    cells.push_back(r.bound ? number(r.bound->share) : "");
    cells.push_back(fmt::format("{}", r.samples.time_s.size()));
    cells.insert(cells.end(),
                 {r.stopped, fmt::format("{}", fmt::join(r.warnings, "; ")), r.group, r.environment, r.rerun});
    result += line(cells);
  }
  return result;
}

}  // namespace d5
