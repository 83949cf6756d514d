// SPDX-License-Identifier: Apache-2.0
// A search over values of a recipe: every trial is one training, in a process of its own, and a record. None is hidden:
// what failed or was bad is a record too. A search that was cut off goes on from its records.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "d5/recipe/recipe.hpp"
#include "d5/report/record.hpp"
#include "d5/runner/runner.hpp"
#include "d5/training/search.hpp"

namespace d5 {

// What a field may be: one of several values, or a number of a range.
struct SearchField {
  std::string field;          // "batch", "width"; "optimizer.learning_rate" is a value inside another
  std::vector<Json> choices;  // empty: a range
  double from = 0, to = 0;
  bool logarithmic = false, whole = false;
};
// Of a command line: "32,64,128" or "1e-4..1e-1" or "log:1e-4..1e-1"; of a recipe: [32, 64] or { from, to, scale }.
SearchField parse_search_field(const std::string& field, const std::string& text);
SearchField search_field_from(const std::string& field, const Json& value, const std::string& place);
Dimension dimension_of(const SearchField&);
Json value_at(const SearchField&, double coordinate);

struct SearchPlan {
  std::string method = "tpe", objective = "quality";  // or "time_to_target"
  Index trials = 0;
  uint64_t seed = 1;
  int parallel = 1;
  std::vector<std::string> hosts;  // where trials run, each on its share of them; empty: on this machine
  Attributes values;               // the method's own
  std::vector<SearchField> space;
  SearchField per;      // a search for each of its choices; none: one search
  bool confirm = true;  // the best one again with every seed of the recipe: the best of many is partly luck
};
// From [search] of a recipe. UsageError names place, value and legal ones.
SearchPlan search_plan_from(const Recipe&);

// The case of a trial: the recipe with these values, its first seed, and a share of its epochs. UsageError where a
// value is fixed, where nobody knows it, and where the recipe is more than one training.
Json trial_case(const Recipe&, const Json& values, double budget);
// What a method minimises. Trials that failed are infinite; those that never reach a target are ranked by their quality
// behind all that do.
double trial_cost(const Record&, const std::string& objective);

// What the records of one search have in common: recipe, space, method. Another length or parallelism may go on.
std::string search_identity(const Recipe&, const SearchPlan&);

struct SearchRun {
  RunOptions options;
  std::vector<Record> known;                // of an earlier run of the same search
  std::function<void(const Record&)> emit;  // in details["search"]: what trial it is; one call at a time
  std::function<void(const std::string& line)> say;
  const std::atomic<bool>* interrupted;
};
// All records, the known ones first.
std::vector<Record> run_search(const Recipe&, const SearchPlan&, const SearchRun&);

}  // namespace d5
