// SPDX-License-Identifier: Apache-2.0
#include "d5/report/accept.hpp"

#include <fmt/core.h>

#include <cmath>

#include "d5/core/error.hpp"
#include "d5/report/number_text.hpp"

namespace d5 {
namespace {

using Outcome = Judgement::Outcome;

bool holds(double value, const std::string& relation, double threshold) {
  if (relation == ">=") return value >= threshold;
  if (relation == "<=") return value <= threshold;
  if (relation == ">") return value > threshold;
  if (relation == "<") return value < threshold;
  throw UsageError("[accept] relation '{}'; legal: >= <= > <", relation);
}

// The share is bound / time, so its interval is that of the time, turned round.
std::optional<Metric> share_metric(const Record& record) {
  if (!record.bound) return std::nullopt;
  Metric share{.unit = "1", .median = record.bound->share, .ci95 = {}};
  const Metric* time = record.metric("time");
  if (time && time->ci95 && time->ci95->first > 0) {
    share.ci95 = {share.median * time->median / time->ci95->second, share.median * time->median / time->ci95->first};
    share.n = time->n;
    share.n_eff = time->n_eff;
  }
  return share;
}

Metric metric_of(const Record& record, const std::string& name) {
  if (const Metric* known = record.metric(name)) return *known;
  if (name == "share") {
    if (const auto share = share_metric(record)) return *share;
  }
  std::vector<std::string> legal;
  for (const auto& [known, metric] : record.metrics) legal.push_back(known);
  if (record.bound) legal.push_back("share");
  fail_unknown("[accept]", "metric", name, legal);
}

std::string shown(double value) { return fmt::format("{:.4g}", value); }

}  // namespace

std::string to_string(Judgement::Outcome outcome) {
  switch (outcome) {
    case Outcome::accepted: return "accepted";
    case Outcome::refused: return "refused";
    case Outcome::unclear: break;
  }
  return "unclear";
}

Judgement judge(const Record& record, const std::string& metric, const std::string& relation, double threshold) {
  holds(0, relation, 0);  // a wrong relation is an error whatever the record says
  const std::string condition = fmt::format("{} {}", relation, shown(threshold));
  if (record.status != "passed") {
    const bool wrong = record.status == "failed" || record.status == "error";
    const Outcome a = wrong ? Outcome::refused : Outcome::unclear;
    return {a, fmt::format("{} {}: {}, the case is {}", metric, condition, to_string(a), record.status)};
  }
  const Metric m = metric_of(record, metric);
  if (!m.ci95) {
    const bool exact = metric.rfind("error", 0) == 0 && std::isfinite(m.median);
    const Outcome a = !exact                                 ? Outcome::unclear
                      : holds(m.median, relation, threshold) ? Outcome::accepted
                                                             : Outcome::refused;
    return {a, fmt::format("{} {}{} {}: {}", metric, shown(m.median), exact ? "" : " (no interval)", condition,
                           to_string(a))};
  }
  const auto [low, high] = *m.ci95;
  if (!std::isfinite(low) || !std::isfinite(high)) {
    return {Outcome::unclear,
            fmt::format("{} {} (no finite interval) {}: unclear", metric, shown(m.median), condition)};
  }
  const bool at_low = holds(low, relation, threshold), at_high = holds(high, relation, threshold);
  const Outcome a = at_low && at_high ? Outcome::accepted : !at_low && !at_high ? Outcome::refused : Outcome::unclear;
  return {a, fmt::format("{} {} ({} .. {}) {}: {}", metric, shown(m.median), shown(low), shown(high), condition,
                         to_string(a))};
}

}  // namespace d5
