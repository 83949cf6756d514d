// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <map>
#include <sstream>

#include "d5/measure/metric.hpp"
#include "d5/measure/stopping.hpp"
#include "d5/runner/runner.hpp"

namespace d5 {
namespace {

template <class T>
void read(const Json& value, const std::string& key, T& to) {
  const bool right = std::is_floating_point_v<T> ? value.is_number() : value.is_number_integer() && value >= 0;
  if (!right)
    throw UsageError("[measure] {} is {}; a number{} is wanted", key, value.dump(),
                     std::is_floating_point_v<T> ? "" : " 0, 1, 2, ...");
  to = value.get<T>();
}

}  // namespace

std::vector<std::string> split_names(const std::string& text) {
  std::vector<std::string> names;
  std::istringstream parts(text);
  for (std::string name; std::getline(parts, name, ',');) names.push_back(name);
  return names;
}

RunOptions run_options_from(const Json& measure) {
  RunOptions options;
  const std::map<std::string, std::function<void(const Json&)>> keys{
      {"launches", [&](const Json& v) { read(v, "launches", options.launches); }},
      {"rounds", [&](const Json& v) { read(v, "rounds", options.rounds); }},
      {"slice", [&](const Json& v) { read(v, "slice", options.slice_seconds); }},
      {"width", [&](const Json& v) { read(v, "width", options.relative_width); }},
      {"stopping", [&](const Json& v) { options.stopping = v.is_string() ? v.get<std::string>() : v.dump(); }},
      {"max_time", [&](const Json& v) { read(v, "max_time", options.max_seconds); }},
      {"max_samples", [&](const Json& v) { read(v, "max_samples", options.max_samples); }},
      {"seed", [&](const Json& v) { read(v, "seed", options.seed); }},
      {"alpha", [&](const Json& v) { read(v, "alpha", options.alpha); }},
      {"margin", [&](const Json& v) { read(v, "margin", options.margin); }},
      {"metric",
       [&](const Json& v) { options.metrics = split_names(v.is_string() ? v.get<std::string>() : v.dump()); }}};
  for (const auto& [key, value] : measure.items()) {
    const auto found = keys.find(key);
    if (found == keys.end()) {
      std::vector<std::string> legal;
      for (const auto& [name, reader] : keys) legal.push_back(name);
      fail_unknown("[measure]", "key", key, legal);
    }
    found->second(value);
  }
  check(options);
  return options;
}

Json to_json(const RunOptions& o) {
  return {{"launches", o.launches},
          {"rounds", o.rounds},
          {"slice", o.slice_seconds},
          {"width", o.relative_width},
          {"stopping", o.stopping},
          {"max_time", o.max_seconds},
          {"max_samples", o.max_samples},
          {"seed", o.seed},
          {"alpha", o.alpha},
          {"margin", o.margin}};
}

void check(const RunOptions& o) {
  registered<stopping_rules>(o.stopping);
  for (const std::string& name : o.metrics) registered<metrics>(name);
  const auto need = [](bool right, const char* key, double value, const char* legal) {
    if (!right) throw UsageError("[measure] {} is {:g}; legal: {}", key, value, legal);
  };
  need(o.launches >= 0 && o.launches <= 10000, "launches", o.launches, "0 (as many as needed) to 10000");
  need(o.rounds >= 1 && o.rounds <= 10000, "rounds", o.rounds, "1 to 10000");
  need(o.slice_seconds > 0 && o.slice_seconds <= 3600, "slice", o.slice_seconds, "above 0, at most 3600 (seconds)");
  need(o.relative_width > 0 && o.relative_width < 1, "width", o.relative_width, "between 0 and 1");
  need(o.max_seconds >= 0, "max_time", o.max_seconds, "0 (the first launches only) or more seconds");
  need(o.max_samples >= 1, "max_samples", static_cast<double>(o.max_samples), "1 or more");
  need(o.alpha > 0 && o.alpha < 1, "alpha", o.alpha, "between 0 and 1");
  need(o.margin > 0 && o.margin < 1, "margin", o.margin, "between 0 and 1");
  need(o.limits.seconds > 0, "time limit", o.limits.seconds, "above 0 (seconds)");
}

}  // namespace d5
