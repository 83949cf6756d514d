// SPDX-License-Identifier: Apache-2.0
// Trainings for people: a row for each run, then what all seeds of one configuration say together.
#pragma once

#include <span>
#include <string>

#include "d5/report/accept.hpp"
#include "d5/report/record.hpp"

namespace d5 {

std::string train_text(std::span<const Record> records, bool colour);  // those of kind "train"; empty: none

// Configurations: records that differ only in their seed, in order of first appearance.
std::vector<std::vector<const Record*>> by_configuration(std::span<const Record> records);

// A recipe's condition over all seeds: the one-sided 95 % bound of the median over runs, by order statistics, against
// the threshold. With fewer than five runs the answer is unclear; a run that failed counts as the worst.
Judgement judge_seeds(std::span<const Record* const> runs, const std::string& metric, const std::string& relation,
                      double threshold);

}  // namespace d5
