// SPDX-License-Identifier: Apache-2.0
// Does the repetition of a record agree with it?
#pragma once

#include <string>
#include <vector>

#include "d5/measure/comparison.hpp"
#include "d5/report/record.hpp"
#include "d5/report/verdicts.hpp"

namespace d5 {

struct Agreement {
  bool agrees = false;                        // same case, same status, and the time is `same` or the intervals meet
  std::vector<std::string> case_differences;  // "m: 512, now 1024"
  std::vector<std::string>
      environment_differences;           // "cpu.model: ..., now ..."; what only describes a moment is left out
  std::string status_difference;         // "passed, now failed: reason"; empty: equal
  bool intervals_meet = false;           // the 95 % intervals of the two medians
  std::optional<Comparison> comparison;  // ratio: repetition / original; empty where either has no times
};

// Environments may be null where they are not known; that is listed as a difference.
Agreement agreement(const Record& original, const Record& repetition, const Record* original_environment,
                    const Record* repetition_environment, const VerdictOptions& options = {});

std::string agreement_text(const Agreement& agreement);

}  // namespace d5
