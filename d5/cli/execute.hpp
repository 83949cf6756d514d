// SPDX-License-Identifier: Apache-2.0
// What every command that runs cases shares: options, progress, records on disk, the table, the exit status.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "d5/recipe/recipe.hpp"
#include "d5/report/record.hpp"
#include "d5/runner/runner.hpp"

namespace d5 {

struct RunFlags {
  std::string depth = "measure", folder, csv, stopping, metrics;
  bool json = false, quiet = false, no_pin = false;
  std::optional<int> launches, rounds;
  std::optional<double> max_time, width, slice, margin;
  double time_limit = 600, memory_limit_gib = 0;
};
void add_run_flags(CLI::App&, RunFlags&);
void add_result_flags(CLI::App&, RunFlags&);  // only those that do not speak of repeated timing
RunOptions run_options(const RunFlags&, const Json& recipe_measure);

// What a command adds to a run.
struct Hooks {
  std::vector<Record> refused = {};  // of what was asked for and cannot even become a case
  // Sees each record as it is written, and the folder where its files are.
  std::function<void(const Record&, const std::string& folder)> made = {};
  std::function<std::string(const std::vector<Record>&)> text = {};  // instead of the usual table
  std::function<int(const std::vector<Record>&)> finished = {};      // all records; the exit status is what it says
};
// Runs the recipe and reports as the flags say.
int execute(const Recipe&, const RunFlags&, const Hooks& = {});

std::string option_name(std::string field);  // "trans_a" is given as --trans-a

// What --mode list prints: the command of each case, or with `json` its fields.
void print_cases(const std::vector<Json>& cases, bool json);
void write_csv(const std::string& path, const std::string& text);
void check_csv(const std::string& path);  // UsageError where no file can be made; before anything is run

// The environment, with what each backend takes on the disk and the roofline that this machine is known by.
Record environment_of(const std::vector<Json>& cases);
std::string default_folder(const std::string& name);  // results/TIME-NAME, one that is not there yet
bool use_colour();                                    // stdout is a terminal and NO_COLOR is not set

}  // namespace d5
