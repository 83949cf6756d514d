// SPDX-License-Identifier: Apache-2.0
// The parent: turns cases into records. Cases that differ only in what is compared (backend, ...) form a group; the
// children of a group are interleaved in rounds of random order and restarted for every launch, because memory layout
// differs by launch.
#pragma once

#include <atomic>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "d5/bench/session.hpp"
#include "d5/runner/child.hpp"

namespace d5 {

struct RunOptions {
  Depth depth = Depth::measure;
  int launches = 0;              // 0: as many as the verdicts of the whole table need; 6 alone, 9 for one comparison
  int rounds = 4;                // a launch; even, so that ABBA closes
  double slice_seconds = 0.02;   // calibrated length of one slice
  double relative_width = 0.01;  // of the 95 % interval, either side
  double max_seconds = 30;       // a group: after the first look, no further launches beyond this
  std::string stopping = "interval";  // see 'd5 list stopping-rules'
  size_t max_samples = 50000;
  uint64_t seed = 1;
  double alpha = 0.05, margin = 0.01;
  ChildLimits limits;
  std::string program;  // the d5 executable for children; empty: /proc/self/exe
  std::vector<std::pair<std::string, std::string>> environment;  // of children, added to ours
  bool pin = true;
  std::vector<std::string> metrics;  // beyond the usual ones: see 'd5 list metrics'
  std::string folder;                // where metrics may leave files
};
// Of a recipe: launches, rounds, slice, width, stopping, max_time, max_samples, seed, alpha, margin, metric.
// UsageError on unknown keys.
RunOptions run_options_from(const Json& measure);
Json to_json(const RunOptions&);                                // the same keys
std::vector<std::string> split_names(const std::string& text);  // "a,b"
void check(const RunOptions&);                                  // UsageError names the first value that makes no sense

// What the console may show while a run goes on. Called from the runner's thread only.
struct Progress {
  size_t groups_done = 0, groups = 0;
  double seconds_elapsed = 0, seconds_left = 0;  // left: estimated
  std::string text;                              // "Gemm m=512 ... launch 3/6"
};

// Groups by everything but the compared fields, in order of first appearance.
std::vector<std::vector<Json>> group_cases(const std::vector<Json>& cases);

// Runs every group and hands each record over as soon as its group is done. Returns early when `interrupted` is set:
// the group in flight is abandoned, records so far are whole.
void run_cases(const std::vector<Json>& cases, const RunOptions&, const std::function<void(const Record&)>& emit,
               const std::function<void(const Progress&)>& progress, const std::atomic<bool>& interrupted);

}  // namespace d5
