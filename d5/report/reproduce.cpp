// SPDX-License-Identifier: Apache-2.0
#include "d5/report/reproduce.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "d5/report/case_fields.hpp"

namespace d5 {
namespace {

using Flat = std::map<std::string, std::string>;

// Every leaf by its path: "cpu.caches[0].bytes".
void flatten(const nlohmann::json& value, const std::string& path, Flat& result) {
  if (value.is_object() && !value.empty()) {
    for (const auto& [key, member] : value.items()) flatten(member, path.empty() ? key : path + "." + key, result);
  } else if (value.is_array() && !value.empty()) {
    for (size_t i = 0; i < value.size(); ++i) flatten(value[i], fmt::format("{}[{}]", path, i), result);
  } else {
    result[path] = value.is_string() ? one_line(value.get<std::string>())
                                     : value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
}

std::vector<std::string> differences(const nlohmann::json& a, const nlohmann::json& b) {
  Flat before, after;
  flatten(a, "", before);
  flatten(b, "", after);
  std::set<std::string> paths;
  for (const auto& [path, text] : before) paths.insert(path);
  for (const auto& [path, text] : after) paths.insert(path);
  const auto text = [](const Flat& flat, const std::string& path) {
    const auto found = flat.find(path);
    return found == flat.end() ? std::string("absent") : found->second;
  };
  std::vector<std::string> result;
  for (const std::string& path : paths) {
    if (text(before, path) != text(after, path)) {
      result.push_back(fmt::format("{}: {}, now {}", path, text(before, path), text(after, path)));
    }
  }
  return result;
}

nlohmann::json without(nlohmann::json object, const char* key) {
  if (object.is_object()) object.erase(key);
  return object;
}

bool meet(const Metric* a, const Metric* b) {
  if (!a || !b || !a->ci95 || !b->ci95) return false;
  return a->ci95->first <= b->ci95->second && b->ci95->first <= a->ci95->second;
}

bool has_times(const Record& r) {
  return !r.samples.time_s.empty() &&
         std::all_of(r.samples.time_s.begin(), r.samples.time_s.end(), [](double t) { return t > 0; });
}

}  // namespace

Agreement agreement(const Record& original, const Record& repetition, const Record* original_environment,
                    const Record* repetition_environment, const VerdictOptions& options) {
  Agreement result;
  nlohmann::json before = without(original.fields, "kind"), after = without(repetition.fields, "kind");
  result.case_differences = differences(before, after);
  if (original.kind != repetition.kind) {
    result.case_differences.push_back(fmt::format("kind: {}, now {}", original.kind, repetition.kind));
  }
  if (original.status != repetition.status) {
    result.status_difference = fmt::format("{}, now {}{}{}", original.status, repetition.status,
                                           repetition.reason.empty() ? "" : ": ", repetition.reason);
  }
  if (original_environment && repetition_environment) {
    // "now" holds load, clock and time of day: it always differs.
    result.environment_differences =
        differences(without(original_environment->details, "now"), without(repetition_environment->details, "now"));
  } else {
    result.environment_differences.push_back(
        fmt::format("the environment of the {} is not known", original_environment ? "repetition" : "original"));
  }
  result.intervals_meet = meet(original.metric("time"), repetition.metric("time"));
  bool timed = true;
  if (original.status == "passed" && repetition.status == "passed" && has_times(original) && has_times(repetition)) {
    result.comparison =
        compare_unpaired(launch_medians(repetition), launch_medians(original), options.margin, options.alpha);
    const Verdict verdict = result.comparison->verdict;
    timed = verdict == Verdict::same || result.intervals_meet;
  }
  result.agrees = result.case_differences.empty() && result.status_difference.empty() && timed;
  return result;
}

std::string agreement_text(const Agreement& a) {
  std::string result = a.agrees ? "The repetition agrees" : "The repetition does not agree";
  if (a.comparison) {
    result += fmt::format("; time: {}, the 95 % intervals {}", verdict_text(*a.comparison),
                          a.intervals_meet ? "meet" : "do not meet");
  }
  result += ".\n";
  if (!a.status_difference.empty()) result += "Status: " + one_line(a.status_difference) + "\n";
  const auto list = [&](const char* title, const std::vector<std::string>& lines) {
    if (lines.empty()) return;
    result += fmt::format("{}:\n", title);
    for (const std::string& line : lines) result += "  " + line + "\n";
  };
  list("The case differs", a.case_differences);
  list("The environment differs", a.environment_differences);
  return result;
}

}  // namespace d5
