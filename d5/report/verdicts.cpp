// SPDX-License-Identifier: Apache-2.0
#include "d5/report/verdicts.hpp"

#include <fmt/core.h>

#include <cmath>
#include <limits>
#include <map>

#include "d5/report/number_text.hpp"

namespace d5 {
namespace {

// launch -> round -> median of the slice. A slice with a time that is no time is left out.
std::map<int, std::map<int, double>> slice_medians(const Samples& s) {
  std::map<int, std::map<int, std::vector<double>>> slices;
  for (size_t i = 0; i < s.time_s.size(); ++i) slices[s.launch[i]][s.round[i]].push_back(s.time_s[i]);
  std::map<int, std::map<int, double>> result;
  for (auto& [launch, rounds] : slices) {
    for (auto& [round, times] : rounds) {
      const double middle = median(times);
      if (middle > 0 && std::isfinite(middle)) result[launch][round] = middle;
    }
  }
  return result;
}

bool comparable(const Record& r) { return r.status == "passed" && !r.group.empty() && !r.samples.time_s.empty(); }

Comparison compare(const Record& record, const Record& base, size_t members, const VerdictOptions& options,
                   size_t comparisons) {
  const std::vector<PairedSlices> slices = paired_slices(record, base, members == 2);
  if (!slices.empty()) return compare_paired(slices, options.margin, options.alpha, comparisons);
  Comparison nothing{};
  nothing.ratio = std::numeric_limits<double>::quiet_NaN();
  nothing.verdict = Verdict::unclear;
  nothing.note = "no common rounds";
  return nothing;
}

}  // namespace

std::vector<PairedSlices> paired_slices(const Record& record, const Record& base, bool pairs_of_rounds) {
  const auto ours = slice_medians(record.samples), theirs = slice_medians(base.samples);
  std::vector<PairedSlices> result;
  for (const auto& [launch, rounds] : ours) {
    const auto same_launch = theirs.find(launch);
    if (same_launch == theirs.end()) continue;
    std::vector<PairedSlices> single;
    for (const auto& [round, time] : rounds) {
      const auto other = same_launch->second.find(round);
      if (other != same_launch->second.end())
        single.push_back({launch, round, std::log(time) - std::log(other->second)});
    }
    if (!pairs_of_rounds || single.size() < 2) {
      result.insert(result.end(), single.begin(), single.end());
      continue;
    }
    for (size_t i = 0; i + 1 < single.size(); i += 2) {
      result.push_back({launch, static_cast<int>(i / 2), (single[i].log_ratio + single[i + 1].log_ratio) / 2});
    }
  }
  return result;
}

std::vector<double> launch_medians(const Record& record) {
  std::map<int, std::vector<double>> launches;
  for (size_t i = 0; i < record.samples.time_s.size(); ++i) {
    launches[record.samples.launch[i]].push_back(record.samples.time_s[i]);
  }
  std::vector<double> result;
  for (auto& [launch, times] : launches) result.push_back(median(times));
  return result;
}

std::vector<std::optional<Standing>> verdicts(std::span<const Record> records, const VerdictOptions& options) {
  std::map<std::string, std::vector<size_t>> groups;
  std::map<std::string, size_t> interleaved;  // also those that are not compared: they took their turns
  for (size_t i = 0; i < records.size(); ++i) {
    interleaved[records[i].group] += !records[i].samples.time_s.empty();
    if (comparable(records[i])) groups[records[i].group].push_back(i);
  }
  size_t comparisons = 0;
  for (const auto& [group, members] : groups) comparisons += members.size() - 1;
  std::vector<std::optional<Standing>> result(records.size());
  for (const auto& [group, members] : groups) {
    if (members.size() < 2) continue;
    const size_t base = members.front();
    for (size_t i : members) {
      result[i] = Standing{base, {}};
      if (i != base) {
        result[i]->comparison = compare(records[i], records[base], interleaved[group], options, comparisons);
      }
    }
  }
  return result;
}

size_t comparisons_in(std::span<const std::optional<Standing>> standings) {
  size_t count = 0;
  for (size_t i = 0; i < standings.size(); ++i) count += standings[i] && standings[i]->base != i;
  return count;
}

std::string verdict_text(const Comparison& c) {
  const std::string verdict = to_string(c.verdict);
  if (!c.interval) return fmt::format("{} ({})", verdict, c.note);
  const std::string note = c.note.empty() ? "" : ", " + c.note;
  if (c.verdict == Verdict::same || c.verdict == Verdict::unclear) {
    return fmt::format("{} ({}){}", verdict, interval_text(*c.interval, supported_decimals(c.ratio, c.interval)), note);
  }
  const bool faster = c.verdict == Verdict::faster;
  const double times = faster ? 1 / c.ratio : c.ratio;
  const Interval range = faster ? Interval{1 / c.interval->high, 1 / c.interval->low} : *c.interval;
  const int decimals = supported_decimals(times, range);
  return fmt::format("{}x {} ({}){}", number_text(times, decimals), verdict, interval_text(range, decimals), note);
}

}  // namespace d5
