// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/meters.hpp"

#include <algorithm>

namespace d5 {

Meters::Meters(const MetricRequest& request) : prefix_(request.prefix) {
  for (const std::string& name : request.names) {
    Asked asked{.name = name, .meter = registered<metrics>(name).make()};
    if (auto reason = asked.meter->why_not()) asked.unavailable = *reason;
    asked_.push_back(std::move(asked));
  }
}

int Meters::repeats() const {
  int most = 0;
  for (const Asked& a : asked_) most = std::max(most, a.meter->repeats());
  return most;
}

void Meters::see(const CheckedResult& result, int run) {
  for (Asked& a : asked_)
    if (a.unavailable.empty() && run <= a.meter->repeats()) a.meter->see(result, run);
}

std::vector<StepObserver*> Meters::observers() const {
  std::vector<StepObserver*> all;
  for (const Asked& a : asked_)
    if (auto* observer = dynamic_cast<StepObserver*>(a.meter.get()); observer && a.unavailable.empty())
      all.push_back(observer);
  return all;
}

void Meters::begin() {
  for (Asked& a : asked_)
    if (a.unavailable.empty()) a.meter->begin();
}

void Meters::end(int64_t iterations) {
  for (Asked& a : asked_)
    if (a.unavailable.empty()) a.meter->end(iterations);
}

void Meters::report(Json& details) {
  for (Asked& a : asked_) {
    if (a.reported) continue;
    Json report = a.unavailable.empty() ? a.meter->report(fmt::format("{}-{}", prefix_, a.name))
                                        : Json{{"unavailable", a.unavailable}};
    if (report.is_null()) continue;
    details["metrics"][a.name] = std::move(report);
    a.reported = true;
  }
}

std::vector<Json> reports_of(const CaseResult& result, const std::string& name) {
  std::vector<Json> reports;
  for (const std::vector<Json>* when : {&result.prepared, &result.finished})
    for (const Json& details : *when)
      if (details.contains("metrics") && details["metrics"].contains(name)) reports.push_back(details["metrics"][name]);
  return reports;
}

void add_metrics(const CaseResult& result, Measured measured, Record& record) {
  measured.check = record.details.value("check", Json());
  std::vector<std::string> names = usual_metrics();
  for (const std::string& name : result.metrics)
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  for (size_t i = 0; i < names.size(); ++i) {
    measured.reports = reports_of(result, names[i]);
    const bool asked = i >= usual_metrics().size();
    if (asked && !measured.reports.empty()) record.details["metrics"][names[i]] = measured.reports.back();
    std::string reason;
    for (const Json& report : measured.reports) reason = report.value("unavailable", "");
    const auto value = reason.empty() ? registered<metrics>(names[i]).make()->value(measured) : std::nullopt;
    if (value) {
      record.metrics.emplace_back(names[i], *value);
      continue;
    }
    const bool has_values = record.status == "passed" || record.status == "mistrusted";
    if (asked && has_values)
      record.warnings.push_back(
          fmt::format("{}: unavailable: {}", names[i], reason.empty() ? "this case has no such value" : reason));
  }
}

}  // namespace d5
