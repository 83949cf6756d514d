// SPDX-License-Identifier: Apache-2.0
// Do the repetitions of records agree with them?
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "d5/measure/comparison.hpp"
#include "d5/report/jsonl.hpp"
#include "d5/report/record.hpp"
#include "d5/report/verdicts.hpp"

namespace d5 {

// Fields of a training that a repetition leaves at their defaults: it begins at the beginning, and writes nothing.
inline constexpr std::array<std::string_view, 8> beside_training{"resume", "checkpoint", "every",    "export",
                                                                 "trace",  "from_ranks", "restarts", "elastic"};

struct Agreement {
  bool agrees = false;  // same case and status; the time is `same`, or `unclear` with intervals that meet
  std::vector<std::string> case_differences;  // "m: 512, now 1024"
  std::string status_difference;              // "passed, now failed: reason"; empty: equal
  bool intervals_meet = false;                // the 95 % intervals of the two medians
  std::string weights;  // of trainings: "the same weights, bit for bit", or how far the qualities are apart
  std::optional<Comparison> comparison;  // ratio: repetition / original; empty where either has no times
};
Agreement agreement(const Record& original, const Record& repetition, const VerdictOptions& options = {},
                    size_t comparisons = 1);

// Leaf by leaf: "cpu.model: A, now B". "now" (load, clock, time of day) is left out: it always differs.
std::vector<std::string> environment_differences(const Record& original, const Record& repetition);

struct Reproduction {
  struct Case {
    std::string name;
    Agreement agreement;
  };
  std::vector<Case> cases;
  std::vector<std::string> missing;  // cases without a repetition
  std::vector<std::string> environment_differences;
  bool agrees = false;  // every case has its repetition and agrees with it; the environment may differ
};

// Matches by kind and case. `after` may hold environment records among those of cases.
Reproduction reproduce_records(const RecordFile& before, std::span<const Record> after,
                               const VerdictOptions& options = {});
std::string to_text(const Reproduction& reproduction);

}  // namespace d5
