// SPDX-License-Identifier: Apache-2.0
// Each record of a group against the first of its group, computed from the raw samples: they ran interleaved.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "d5/measure/comparison.hpp"
#include "d5/report/record.hpp"

namespace d5 {

struct VerdictOptions {
  double margin = 0.01;  // `same` within this
  double alpha = 0.05;   // over all comparisons of the table together
};

struct Standing {
  size_t base;            // index of the record compared with; of the base itself: its own
  Comparison comparison;  // ratio: time of this record / time of the base
};

// One entry per record; empty where there is nothing to compare: not passed, no samples, or alone in its group.
// All comparisons of the records given count as one table.
std::vector<std::optional<Standing>> verdicts(std::span<const Record> records, const VerdictOptions& options = {});
size_t comparisons_in(std::span<const std::optional<Standing>> standings);  // without the bases

// ln t - ln t_base of the medians of the two slices of every round that both ran in. With `pairs_of_rounds` (two
// members: ABBA) the mean over two successive rounds, which cancels a linear drift; an odd last round is left out
// unless it is the only one.
std::vector<PairedSlices> paired_slices(const Record& record, const Record& base, bool pairs_of_rounds);

// The median of the samples of each launch.
std::vector<double> launch_medians(const Record& record);

// "1.047x slower (1.039 .. 1.056)", "1.10x faster (1.08 .. 1.12)": how many times, so always above 1;
// "same (0.997 .. 1.004)" and "unclear (0.98 .. 1.03)": the ratio of times.
std::string verdict_text(const Comparison& comparison);

}  // namespace d5
