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

// The case without what a repetition does not do: files it wrote, checkpoints it went on from, ranks started again.
nlohmann::json repeated_fields(const Record& record) {
  nlohmann::json fields = without(record.fields, "kind");
  if (record.kind == "train")
    for (const std::string_view name : beside_training) fields.erase(std::string(name));
  return fields;
}

// A user's file by its contents, under its name.
nlohmann::json plugin_hashes(const Record& record) {
  nlohmann::json hashes = nlohmann::json::object();
  const auto plugins = record.details.find("plugins");
  if (plugins == record.details.end() || !plugins->is_array()) return hashes;
  for (const auto& plugin : *plugins)
    if (plugin.is_object() && plugin.contains("file") && plugin["file"].is_string())
      hashes["contents of " + plugin["file"].get<std::string>()] = plugin.value("hash", nlohmann::json());
  return hashes;
}

bool meet(const Metric* a, const Metric* b) {
  if (!a || !b || !a->ci95 || !b->ci95) return false;
  return a->ci95->first <= b->ci95->second && b->ci95->first <= a->ci95->second;
}

bool has_times(const Record& r) {
  return r.status == "passed" && !r.samples.time_s.empty() &&
         std::all_of(r.samples.time_s.begin(), r.samples.time_s.end(), [](double t) { return t > 0; });
}

// A training agrees bit for bit by its weights, else where the intervals of its quality on the test set meet.
bool trainings_agree(const Record& original, const Record& repetition, std::string& text) {
  const auto of = [](const Record& record, const char* name) {
    return record.details.value("training", nlohmann::json::object()).value(name, "");
  };
  const std::string before = of(original, "weights_hash"), now = of(repetition, "weights_hash");
  if (before.empty() || now.empty()) return true;  // neither was trained: only the status counts
  if (before == now) {
    text = "the same weights, bit for bit";
    return true;
  }
  if (original.status == "failed" && repetition.status == "failed") {  // there is no quality to compare
    const bool same = original.reason == repetition.reason;
    text = same ? "failed again: " + original.reason
                : fmt::format("failed otherwise: {}, now {}", original.reason, repetition.reason);
    return same;
  }
  const std::string quality = "test_" + of(original, "quality");
  const Metric *a = original.metric(quality), *b = repetition.metric(quality);
  const bool together = meet(a, b);
  text = fmt::format("other weights ({}, now {})", before, now);
  if (a && b)
    text += fmt::format("; {} {:.4g}, now {:.4g}: {}", quality, a->median, b->median,
                        !a->ci95 || !b->ci95 ? "there is no interval to compare by"
                        : together           ? "the 95 % intervals meet"
                                             : "the 95 % intervals do not meet");
  return together;
}

}  // namespace

Agreement agreement(const Record& original, const Record& repetition, const VerdictOptions& options,
                    size_t comparisons) {
  Agreement result;
  result.case_differences = differences(repeated_fields(original), repeated_fields(repetition));
  for (std::string& text : differences(plugin_hashes(original), plugin_hashes(repetition)))
    result.case_differences.push_back(std::move(text));
  if (original.kind != repetition.kind) {
    result.case_differences.push_back(fmt::format("kind: {}, now {}", original.kind, repetition.kind));
  }
  if (original.status != repetition.status) {
    result.status_difference = fmt::format("{}, now {}{}{}", original.status, repetition.status,
                                           repetition.reason.empty() ? "" : ": ", repetition.reason);
  }
  result.intervals_meet = meet(original.metric("time"), repetition.metric("time"));
  bool time_agrees = true;
  if (has_times(original) && has_times(repetition)) {
    result.comparison = compare_unpaired(launch_medians(repetition), launch_medians(original), options.margin,
                                         options.alpha, comparisons);
    const Verdict verdict = result.comparison->verdict;
    time_agrees = verdict == Verdict::same || (verdict == Verdict::unclear && result.intervals_meet);
  }
  if (original.kind == "train") time_agrees = trainings_agree(original, repetition, result.weights);
  result.agrees = result.case_differences.empty() && result.status_difference.empty() && time_agrees;
  return result;
}

std::vector<std::string> environment_differences(const Record& original, const Record& repetition) {
  return differences(without(original.details, "now"), without(repetition.details, "now"));
}

Reproduction reproduce_records(const RecordFile& before, std::span<const Record> after, const VerdictOptions& options) {
  Reproduction result;
  std::vector<std::pair<const Record*, const Record*>> pairs;
  for (const Record& original : before.records) {
    const auto repetition = std::find_if(after.begin(), after.end(), [&](const Record& r) {
      return r.kind == original.kind && repeated_fields(r) == repeated_fields(original);
    });
    if (repetition == after.end()) {
      result.missing.push_back(case_name(original));
    } else {
      pairs.emplace_back(&original, &*repetition);
    }
  }
  std::set<std::pair<std::string, std::string>> environments;
  for (const auto& [original, repetition] : pairs) {
    result.cases.push_back({case_name(*original), agreement(*original, *repetition, options, pairs.size())});
    if (!environments.insert({original->environment, repetition->environment}).second) continue;
    const Record* old_environment = before.environment(original->environment);
    const auto new_environment =
        std::find_if(after.begin(), after.end(), [&, hash = repetition->environment](const Record& r) {
          return r.kind == "environment" && r.environment == hash;
        });
    if (!old_environment || new_environment == after.end()) {
      result.environment_differences.push_back(
          fmt::format("the environment of the {} is not known", old_environment ? "repetition" : "original"));
      continue;
    }
    for (std::string& text : environment_differences(*old_environment, *new_environment)) {
      result.environment_differences.push_back(std::move(text));
    }
  }
  result.agrees =
      result.missing.empty() && !result.cases.empty() &&
      std::all_of(result.cases.begin(), result.cases.end(), [](const auto& c) { return c.agreement.agrees; });
  return result;
}

std::string to_text(const Reproduction& r) {
  std::string result;
  for (const auto& [name, a] : r.cases) {
    result += fmt::format("{}: {}", one_line(name), a.agrees ? "agrees" : "does not agree");
    if (a.comparison) {
      result += fmt::format("; {}, the 95 % intervals {}", verdict_text(*a.comparison),
                            a.intervals_meet ? "meet" : "do not meet");
    }
    if (!a.weights.empty()) result += "; " + a.weights;
    if (!a.status_difference.empty()) result += "; " + one_line(a.status_difference);
    for (const std::string& difference : a.case_differences) result += "; " + difference;
    result += "\n";
  }
  const auto list = [&](const char* title, const std::vector<std::string>& lines) {
    if (lines.empty()) return;
    result += fmt::format("{}:\n", title);
    for (const std::string& line : lines) result += "  " + one_line(line) + "\n";
  };
  list("Not repeated", r.missing);
  list("The environment differs", r.environment_differences);
  return result;
}

}  // namespace d5
