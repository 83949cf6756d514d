// SPDX-License-Identifier: Apache-2.0
// Two sets of records, case by case: is the second faster or slower than the first? The launches of the two sets did
// not run together, so they are compared unpaired, over the medians of the launches.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "d5/measure/comparison.hpp"
#include "d5/report/record.hpp"
#include "d5/report/verdicts.hpp"

namespace d5 {

struct CompareOptions {
  std::vector<std::string> ignore;  // case fields that may differ: {"backend"}
  VerdictOptions verdicts;
};

struct CompareRow {
  std::string name;      // the case, without the ignored fields
  double first_seconds;  // medians of the launch medians
  double second_seconds;
  Comparison comparison;  // ratio: second / first, so `slower` is said of the second
};

struct RecordComparison {
  std::vector<CompareRow> rows;            // in the order of the first set; intervals corrected over all of them
  std::vector<std::string> only_in_first;  // cases
  std::vector<std::string> only_in_second;
  std::vector<std::string> refused;  // "CASE: second set: failed: reason": without a check there is no speed
  std::vector<std::string> broken;   // those of `refused` that passed in the first set
};

// Cases match where their kind and all fields but the ignored ones are equal. Several records of one case are taken
// together: their launches are all launches of that case. UsageError where such records differ in an ignored field:
// which one is meant?
RecordComparison compare_records(std::span<const Record> first, std::span<const Record> second,
                                 const CompareOptions& options = {});

std::string compare_text(const RecordComparison& comparison, const CompareOptions& options, bool colour);

// Why the gate says no; empty: it does not. `fail_on` is a list of slower, different (faster or slower) and unclear,
// separated by commas. Every gate also says no where nothing could be compared, and where a case no longer passes.
std::vector<std::string> gate(const RecordComparison& comparison, std::string_view fail_on);

}  // namespace d5
