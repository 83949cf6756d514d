// SPDX-License-Identifier: Apache-2.0
// A suite: cases as the rows of a CSV file, so that a benchmark's sizes are data.
//
//   # What it is, in one line (d5 list suites shows it)
//   # Source and remarks: any number of lines
//   operator,set,m,n,k,trans_b
//   Gemm,training,16,1760,1760,true
//
// A column is a field of the case; an empty cell leaves the field at its default. `set` is a label to select by.
// A recipe block with `suite = "deepbench-gemm"` stands for all rows of that suite; its other values and axes replace
// the rows' own where the operator of a row has such a field.
#pragma once

#include "d5/recipe/recipe.hpp"

namespace d5 {

struct SuiteRow {
  size_t line = 0;  // of the file, from 1
  std::string set;
  nlohmann::json fields = nlohmann::json::object();
  std::map<std::string, size_t> columns;  // field -> character of the line, from 1
};

struct Suite {
  std::string name, about, file;
  std::vector<SuiteRow> rows;
  std::vector<std::string> problems;  // rows that are no rows: "my.csv:7:1: 3 cells ..."
};

// The suites that come with deep500: share/deep500/suites beside the library, or the folder in D5_SUITE_PATH.
std::vector<std::string> suite_names();
Suite load_suite(const std::string& name_or_file);  // a file ends in .csv. UsageError on an unknown name
Suite parse_suite(const std::string& text, const std::string& file);

// Replaces every block that names a suite by one block for each of its rows, labelled {"suite", "set", "line"}.
// `complete` and `check` see the values of a row alone; a row that either refuses is left out and named in the answer
// as "[suite] FILE:LINE:COLUMN: why". Beside `suite` a block may select rows by `set` and `operator`.
using CheckCase = std::function<void(const nlohmann::json& complete_fields)>;
std::vector<std::string> resolve_suites(Recipe&, const Complete& complete, const CheckCase& check);

}  // namespace d5
