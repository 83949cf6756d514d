// SPDX-License-Identifier: Apache-2.0
#include "d5/report/compare.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "d5/core/error.hpp"
#include "d5/report/case_fields.hpp"
#include "d5/report/number_text.hpp"
#include "d5/report/text_table.hpp"

namespace d5 {
namespace {

// One case of one set: all records of it.
struct Entry {
  std::string name;
  std::vector<const Record*> records;
};
using Entries = std::vector<std::pair<std::string, Entry>>;  // by key, in the order of first appearance

template <class List>
auto find_key(List& list, const std::string& key) {
  return std::find_if(list.begin(), list.end(), [&](const auto& entry) { return entry.first == key; });
}

Entries collect(std::span<const Record> records, const std::vector<std::string>& ignore, const char* which) {
  Entries result;
  for (const Record& r : records) {
    Record bare;
    bare.kind = r.kind;
    bare.fields = r.fields.is_object() ? r.fields : nlohmann::json::object();
    bare.fields.erase("kind");
    for (const std::string& field : ignore) bare.fields.erase(field);
    const std::string key = r.kind + bare.fields.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    auto entry = find_key(result, key);
    if (entry == result.end()) entry = result.insert(result.end(), {key, {case_name(bare), {}}});
    for (const std::string& field : ignore) {
      if (entry->second.records.empty()) break;
      const std::string known = field_text(entry->second.records.front()->fields, field);
      const std::string given = field_text(r.fields, field);
      if (known == given) continue;
      throw UsageError("[compare] the {} set has '{}' with {} {} and {}; give only one of them", which,
                       entry->second.name, field, known.empty() ? "none" : known, given.empty() ? "none" : given);
    }
    entry->second.records.push_back(&r);
  }
  return result;
}

// Why there is no speed to compare; empty: there is.
std::string why_refused(const Entry& entry) {
  for (const Record* r : entry.records) {
    if (r->status != "passed") return r->reason.empty() ? r->status : r->status + ": " + r->reason;
  }
  size_t samples = 0;
  for (const Record* r : entry.records) {
    samples += r->samples.time_s.size();
    for (double t : r->samples.time_s) {
      if (!(t > 0 && std::isfinite(t))) return fmt::format("a sample of {} s", t);
    }
  }
  return samples == 0 ? "not measured" : "";
}

std::vector<double> all_launches(const Entry& entry) {
  std::vector<double> result;
  for (const Record* r : entry.records) {
    for (double m : launch_medians(*r)) result.push_back(m);
  }
  return result;
}

}  // namespace

RecordComparison compare_records(std::span<const Record> first, std::span<const Record> second,
                                 const CompareOptions& options) {
  const Entries a = collect(first, options.ignore, "first"), b = collect(second, options.ignore, "second");
  RecordComparison result;
  std::vector<std::pair<const Entry*, const Entry*>> matches;
  for (const auto& [key, entry] : a) {
    const auto other = find_key(b, key);
    if (other == b.end()) {
      result.only_in_first.push_back(entry.name);
      continue;
    }
    const std::string why_a = why_refused(entry), why_b = why_refused(other->second);
    if (!why_a.empty()) {
      result.refused.push_back(fmt::format("{}: first set: {}", entry.name, why_a));
    } else if (!why_b.empty()) {
      result.refused.push_back(fmt::format("{}: second set: {}", entry.name, why_b));
      result.broken.push_back(result.refused.back());
    } else {
      matches.emplace_back(&entry, &other->second);
    }
  }
  for (const auto& [key, entry] : b) {
    if (find_key(a, key) == a.end()) result.only_in_second.push_back(entry.name);
  }
  for (const auto& [entry, other] : matches) {
    const std::vector<double> old_times = all_launches(*entry), new_times = all_launches(*other);
    result.rows.push_back(
        {entry->name, median(old_times), median(new_times),
         compare_unpaired(new_times, old_times, options.verdicts.margin, options.verdicts.alpha, matches.size())});
  }
  return result;
}

std::string compare_text(const RecordComparison& comparison, const CompareOptions& options, bool colour) {
  std::string result;
  if (!comparison.rows.empty()) {
    std::vector<double> times;
    for (const CompareRow& row : comparison.rows) times.push_back(row.first_seconds);
    const auto [unit, scale] = time_unit(median(times));
    TextTable table;
    table.column("case");
    table.column(fmt::format("first {}", unit), Align::right);
    table.column(fmt::format("second {}", unit), Align::right);
    table.column("ratio", Align::right);
    table.column("the second is");
    for (const CompareRow& row : comparison.rows) {
      const Comparison& c = row.comparison;
      const int decimals = supported_decimals(c.ratio, c.interval);
      // The times are known about as well as their ratio.
      const auto time = [&c, scale = scale](double seconds) {
        std::optional<Interval> range;
        if (c.interval)
          range = {seconds * scale * c.interval->low / c.ratio, seconds * scale * c.interval->high / c.ratio};
        return number_text(seconds * scale, supported_decimals(seconds * scale, range));
      };
      const Tone tone = c.verdict == Verdict::slower   ? Tone::bad
                        : c.verdict == Verdict::faster ? Tone::good
                                                       : Tone::plain;
      table.row({{row.name},
                 {time(row.first_seconds)},
                 {time(row.second_seconds)},
                 {number_text(c.ratio, decimals)},
                 {verdict_text(c), tone}});
    }
    result += table.text(colour);
    const std::string corrected =
        comparison.rows.size() > 1
            ? fmt::format(", corrected by Bonferroni over {} comparisons", comparison.rows.size())
            : "";
    result += fmt::format(
        "\nVerdicts: Mann-Whitney with the Hodges-Lehmann shift over launches at {:g} %{}; same is within {:g} %.\n",
        100 * (1 - options.verdicts.alpha), corrected, 100 * options.verdicts.margin);
  }
  const auto list = [&](const char* title, const std::vector<std::string>& names) {
    if (names.empty()) return;
    result += fmt::format("{}{} ({}):\n", result.empty() ? "" : "\n", title, names.size());
    for (const std::string& name : names) result += "  " + one_line(name) + "\n";
  };
  list("Not compared", comparison.refused);
  list("Only in the first set", comparison.only_in_first);
  list("Only in the second set", comparison.only_in_second);
  return result;
}

std::vector<std::string> gate(const RecordComparison& comparison, std::string_view fail_on) {
  static const std::vector<std::string> legal = {"slower", "different", "unclear"};
  std::set<Verdict> fatal;
  while (true) {
    const size_t comma = fail_on.find(',');
    const std::string word(fail_on.substr(0, comma));
    if (word == "slower") {
      fatal.insert(Verdict::slower);
    } else if (word == "different") {
      fatal.insert({Verdict::slower, Verdict::faster});
    } else if (word == "unclear") {
      fatal.insert(Verdict::unclear);
    } else {
      fail_unknown("[compare]", "verdict to fail on", word, legal);
    }
    if (comma == std::string_view::npos) break;
    fail_on.remove_prefix(comma + 1);
  }
  std::vector<std::string> reasons;
  if (comparison.rows.empty()) reasons.push_back("no case could be compared");
  for (const CompareRow& row : comparison.rows) {
    if (fatal.count(row.comparison.verdict)) reasons.push_back(row.name + ": " + verdict_text(row.comparison));
  }
  reasons.insert(reasons.end(), comparison.broken.begin(), comparison.broken.end());
  return reasons;
}

}  // namespace d5
