// SPDX-License-Identifier: Apache-2.0
// The record of one case: the truth from which tables, plots, comparisons and audits are computed. One JSON object a
// line (docs/record.schema.json, schema "d5-record/1"). Environments are records of their own, kind "environment".
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "d5/measure/metric.hpp"

namespace d5 {

// Raw samples in the order taken; the arrays have one entry a sample. `slot` of a sample is its place in its round.
struct Samples {
  std::vector<double> time_s, start_s;
  std::vector<int> launch, round;
  std::vector<double> warmup_s;
  int64_t batch = 1;  // iterations averaged in one sample; over 1 there are no per-iteration percentiles
};

struct Bound {
  std::string name;  // "roofline"
  double value = 0;  // in `unit`
  std::string unit;
  double share =
      0;  // attained part of the bound, 0..1 (above 1: the bound was measured too low, and a warning says so)
};

struct Record {
  std::string kind;       // "op", "environment"
  nlohmann::json fields;  // the case
  std::string status, reason;
  Samples samples;
  std::string group;                                    // cases of one group were measured interleaved
  std::vector<std::pair<std::string, Metric>> metrics;  // in the order to be shown
  std::optional<Bound> bound;
  std::string stopped;  // converged | max_time | max_samples | "" (not measured)
  std::vector<std::string> warnings;
  std::string environment;  // hash of the environment record
  std::string rerun;
  nlohmann::json details = nlohmann::json::object();  // kernels, check, memory: level's own

  const Metric* metric(const std::string& name) const;
};

// JSON has no NaN and no infinity: a number that is not finite is written as null, and null is read back as NaN. Where
// an object stands ("bound", "ci95") null means that there is none. An environment is written as kind, environment (its
// hash), warnings and details (what was captured), nothing else.
nlohmann::json to_json(const Record&);
Record record_from_json(const nlohmann::json&);  // Error names the missing or wrong field

// The same as one line of text without its newline: here the metrics keep their order.
std::string to_line(const Record&);
Record record_from_line(std::string_view line);

Record environment_record(std::string hash, nlohmann::json captured);

}  // namespace d5
