// SPDX-License-Identifier: Apache-2.0
// Does a training converge faster than its reference allows? A submission may be quicker in seconds, not in epochs:
// with the same network, data and batch a smaller number of epochs to the target means that something else was changed.
// Epochs to the target over seeds are compared by the trimmed t-test (measure/trimmed_mean.hpp), at 5 %.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "d5/measure/trimmed_mean.hpp"
#include "d5/report/record.hpp"

namespace d5 {

struct Convergence {
  std::string name;                       // the configuration, without its seed and the ignored fields
  size_t reference_runs = 0, runs = 0;    // with those that never got there
  std::optional<TrimmedTest> comparison;  // first: the submission; none: too few runs reached the target
  bool too_fast = false;
};

// Configurations of kind "train" with a target that are in both; cases match as in compare_records.
std::vector<Convergence> compare_convergence(std::span<const Record> reference, std::span<const Record> submission,
                                             const std::vector<std::string>& ignore);
std::string convergence_text(std::span<const Convergence>);  // empty: none

}  // namespace d5
