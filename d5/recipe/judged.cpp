// SPDX-License-Identifier: Apache-2.0
#include "d5/recipe/judged.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "d5/core/error.hpp"

namespace d5 {
namespace {

constexpr std::array<std::string_view, 34> beside_what_is_measured{
    "seed",           "backend",  "device",  "environment",   "threads",          "loader_threads", "dtype",
    "math",           "layout",   "kernel",  "deterministic", "fallback",         "data",           "ranks",
    "ranks_per_node", "scheme",   "link",    "communicator",  "accumulate",       "checkpoint",     "every",
    "resume",         "restarts", "elastic", "from_ranks",    "rank_limit",       "time_limit",     "export",
    "trace",          "events",   "price",   "trajectory",    "trajectory_every", "algorithm"};

bool may_change(const std::set<std::string>& free, const std::string& field) {
  return free.contains(field) || std::ranges::find(beside_what_is_measured, field) != beside_what_is_measured.end();
}

[[noreturn]] void refuse(const std::string& place, const std::string& field, const std::string& file,
                         const std::string& judges_by, const std::set<std::string>& free) {
  throw UsageError(
      "[recipe] {}'{}' is not mutable in {}, which judges what it measures by {}: with another value it is another "
      "benchmark; mutable: {}, and what does not change the measurement (seed, threads, ranks, ...)",
      place.empty() ? "" : place + ": ", field, file, judges_by, fmt::join(free, ", "));
}

// The file and all that it includes, however deep: one recipe.
std::set<size_t> whole_of(const std::vector<RecipeFile>& files, size_t file) {
  std::set<size_t> whole, open{file};
  while (!open.empty()) {
    const size_t next = *open.begin();
    open.erase(open.begin());
    if (whole.insert(next).second) open.insert(files[next].includes.begin(), files[next].includes.end());
  }
  return whole;
}

}  // namespace

void refuse_another_benchmark(const std::vector<RecipeFile>& files) {
  for (size_t judge = 0; judge < files.size(); ++judge) {
    const std::set<size_t> whole = whole_of(files, judge);
    const bool trains = files[judge].kind.empty()
                            ? std::ranges::any_of(whole, [&](size_t one) { return files[one].kind == "train"; })
                            : files[judge].kind == "train";
    if (files[judge].judges_by.empty() || !trains) continue;
    std::set<std::string> free;
    for (const size_t own : whole)
      for (const RecipeFile::Field& field : files[own].fields)
        if (field.may_change) free.insert(field.name);
    for (size_t other = 0; other < files.size(); ++other)
      for (const RecipeFile::Field& field : files[other].fields)
        if (!whole.contains(other) && !may_change(free, field.name))
          refuse(field.place, field.name, files[judge].path, files[judge].judges_by, free);
  }
}

void refuse_another_benchmark(const Recipe& recipe, const std::string& field) {
  const bool has_target = recipe.fixed.contains("target");
  if (recipe.kind != "train" || (recipe.accept.empty() && !has_target)) return;
  std::set<std::string> free;
  for (const auto& [name, value] : recipe.changeable.items()) free.insert(name);
  for (const Axis& axis : recipe.axes) free.insert(axis.name);
  if (!may_change(free, field)) refuse("", field, recipe.file, has_target ? "a target" : "[accept]", free);
}

}  // namespace d5
