// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/meters.hpp"

#include <algorithm>

#include "d5/bench/fields.hpp"
#include "d5/core/origin.hpp"
#include "d5/core/trial.hpp"

namespace d5 {

// A wrong metric is no fault of the case: it is unavailable from then on.
template <class Act>
void Meters::guarded(Asked& asked, const char* call, Act act) {
  if (!asked.unavailable.empty()) return;
  try {
    act(asked.meter);
    return;
  } catch (const std::exception& error) {
    asked.unavailable = fmt::format("{} throws: {}", call, error.what());
  } catch (...) {
    asked.unavailable = fmt::format("{} throws: an exception of an unknown type", call);
  }
  asked.reported = false;
}

Meters::Meters(const MetricRequest& request) : prefix_(request.prefix) {
  for (const std::string& name : request.names) {
    Asked asked{.name = name};
    guarded(asked, "its constructor", [&](auto& meter) { meter = registered<metrics>(name).make(); });
    guarded(asked, "why_not", [&](auto& meter) { asked.unavailable = meter->why_not().value_or(""); });
    asked_.push_back(std::move(asked));
  }
}

int Meters::repeats() const {
  int most = 0;
  for (const Asked& a : asked_)
    if (a.meter) most = std::max(most, a.meter->repeats());
  return most;
}

void Meters::see(const CheckedResult& result, int run) {
  for (Asked& a : asked_)
    guarded(a, "see", [&](auto& meter) {
      if (run <= meter->repeats()) meter->see(result, run);
    });
}

std::vector<StepObserver*> Meters::observers() const {
  std::vector<StepObserver*> all;
  for (const Asked& a : asked_)
    if (auto* observer = dynamic_cast<StepObserver*>(a.meter.get()); observer && a.unavailable.empty())
      all.push_back(observer);
  return all;
}

void Meters::begin() {
  for (Asked& a : asked_) guarded(a, "begin", [](auto& meter) { meter->begin(); });
}

void Meters::end(int64_t iterations) {
  for (Asked& a : asked_) guarded(a, "end", [&](auto& meter) { meter->end(iterations); });
}

void Meters::report(Json& details) {
  for (Asked& a : asked_) {
    if (a.reported) continue;
    Json report;
    guarded(a, "report", [&](auto& meter) { report = meter->report(fmt::format("{}-{}", prefix_, a.name)); });
    if (a.unavailable.empty() && !report.is_null() && !report.is_object())
      a.unavailable = fmt::format("its report is {}; an object is wanted", printable(report));
    if (!a.unavailable.empty()) report = {{"unavailable", a.unavailable}};
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

namespace {

// The value that a user's metric gives, from a copy of this process. A record is how a metric is written and read.
std::optional<Metric> value_apart(const std::string& name, const Measured& measured) {
  const std::string line = try_apart("[" + name + "]", [&](const Calling& calling) {
    Record carrier{.kind = "op", .fields = Json::object(), .status = "passed"};
    calling("its constructor");
    const auto meter = registered<metrics>(name).make();
    calling("value");
    if (const auto value = meter->value(measured)) carrier.metrics.emplace_back(name, *value);
    return to_line(carrier);
  });
  const Record carrier = record_from_line(line);
  return carrier.metrics.empty() ? std::nullopt : std::optional(carrier.metrics.front().second);
}

}  // namespace

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
    std::optional<Metric> value;
    bool wrong = false;
    if (reason.empty()) try {
        value = is_users<metrics>(names[i]) ? value_apart(names[i], measured)
                                            : registered<metrics>(names[i]).make()->value(measured);
      } catch (const Error& error) {
        reason = error.what();
        wrong = true;
      }
    if (value) {
      record.metrics.emplace_back(names[i], *value);
      continue;
    }
    const bool has_values = record.status == "passed" || record.status == "mistrusted";
    if (wrong || (asked && has_values))
      record.warnings.push_back(
          fmt::format("{}: unavailable: {}", names[i], reason.empty() ? "this case has no such value" : reason));
  }
}

}  // namespace d5
