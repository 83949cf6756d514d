// SPDX-License-Identifier: Apache-2.0
#include "d5/cli/execute.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <set>

#include "d5/backends/backend.hpp"
#include "d5/bench/session.hpp"
#include "d5/cli/command.hpp"
#include "d5/cli/interrupt.hpp"
#include "d5/cli/progress.hpp"
#include "d5/measure/environment.hpp"
#include "d5/measure/roofline.hpp"
#include "d5/measure/roofline_cache.hpp"
#include "d5/recipe/suite.hpp"
#include "d5/report/accept.hpp"
#include "d5/report/console.hpp"
#include "d5/report/csv.hpp"
#include "d5/report/jsonl.hpp"
#include "d5/report/suite_summary.hpp"
#include "d5/report/train_table.hpp"
#include "d5/report/trajectory_table.hpp"
#include "d5/runner/describe.hpp"

namespace d5 {
namespace {

int status_of(const std::vector<Record>& records) {
  for (const Record& record : records)
    if (record.status == "failed" || record.status == "error") return exit_failed;
  return exit_passed;
}

std::string tables(const std::vector<Record>& records, const Record& environment, const RunOptions& options) {
  std::vector<Record> timed;
  for (const Record& record : records)
    if (record.kind != "train") timed.push_back(record);
  std::string text;
  if (!timed.empty())
    text = console_text(timed, {&environment, 1}, {.colour = use_colour(), .verdicts = {.margin = options.margin}}) +
           suite_summary(timed);
  const std::string trainings = train_text(records, use_colour()) + trajectory_text(records, use_colour());
  return text + (text.empty() || trainings.empty() ? "" : "\n") + trainings;
}

// What is written in the end would be that of the last case alone.
void check_exports(const std::vector<Json>& cases) {
  std::set<std::string> files;
  for (const Json& one : cases)
    if (const std::string file = one.value("export", ""); !file.empty() && !files.insert(file).second)
      throw UsageError("[train] --export {}: several cases would write it, one after the other; legal: one case a file",
                       file);
}

// 2^33 GiB is more than any machine has, and fits.
size_t memory_limit_bytes(double gib) {
  if (gib >= 0 && gib <= 0x1p33) return static_cast<size_t>(gib * (1 << 30));
  throw UsageError("[measure] memory limit is {:g}; legal: 0 (what the machine has) or more GiB", gib);
}

// A pipe or a device is written to as it is; a file is whole or not there.
bool is_special(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored);
}

int judge_all(const Recipe& recipe, const std::vector<Record>& records) {
  int status = exit_passed;
  for (const Accept& accept : recipe.accept)
    for (const auto& runs : by_configuration(records)) {  // trainings are judged over all their seeds
      const Judgement judgement = judge_seeds(runs, accept.metric, accept.relation, accept.threshold);
      fmt::print(stderr, "{}\n", judgement.text);
      if (judgement.outcome != Judgement::Outcome::accepted) status = exit_refused;
    }
  for (const Accept& accept : recipe.accept)
    for (const Record& record : records) {
      if (record.kind == "train") continue;
      if (record.status != "passed" && record.status != "mistrusted") continue;  // skipped or unsupported is no failure
      const Judgement judgement = judge(record, accept.metric, accept.relation, accept.threshold);
      if (judgement.outcome == Judgement::Outcome::accepted) continue;
      fmt::print(stderr, "{}: {}\n", record.rerun, judgement.text);
      status = exit_refused;
    }
  return status;
}

}  // namespace

void print_cases(const std::vector<Json>& cases, bool json) {
  for (const Json& one : cases)
    std::cout << (json ? one.dump(-1, ' ', false, Json::error_handler_t::replace) : bench_of(one).rerun(one)) << "\n";
}

void write_csv(const std::string& path, const std::string& text) {
  const bool special = is_special(path);
  const std::string written = special ? path : path + ".part";
  std::ofstream file(written);
  file << text;
  file.close();
  std::error_code error, ignored;
  if (file && !special) std::filesystem::rename(written, path, error);
  if (file && !error) return;
  if (!special) std::filesystem::remove(written, ignored);
  throw Error("[csv] {} cannot be written", path);
}

void check_csv(const std::string& path) {
  if (path.empty()) return;
  std::error_code ignored;
  bool writable = !std::filesystem::is_directory(path, ignored);
  if (writable && !is_special(path)) {
    const std::string temporary = path + ".part";
    writable = std::ofstream(temporary).is_open();
    std::filesystem::remove(temporary, ignored);
  }
  if (!writable) throw UsageError("[csv] {} cannot be written; name a file in a folder that is there", path);
}

std::string option_name(std::string field) {
  std::ranges::replace(field, '_', '-');
  return "--" + field;
}

void add_run_flags(CLI::App& command, RunFlags& flags) {
  const std::string how = "How to run";
  command
      .add_option(
          "--launches", flags.launches,
          "Times every child is started afresh [as the verdicts of the table need: 6 alone, 9 for one comparison]")
      ->group(how);
  command.add_option("--rounds", flags.rounds, "Interleaved rounds in a launch [4]")->group(how);
  command.add_option("--slice", flags.slice, "Seconds of one slice of a round [0.02]")->group(how);
  command.add_option("--half-width", flags.width, "Relative half width of the 95 % interval to reach [0.01]")
      ->group(how);
  command.add_option("--stopping", flags.stopping, "When to stop: interval, fixed, or a plugin's rule [interval]")
      ->group(how);
  command.add_option("--margin", flags.margin, "Ratios within this of 1 are 'same' [0.01]")->group(how);
  command
      .add_option("--max-time", flags.max_time,
                  "Seconds for a group of compared cases; the first launches are always run [30]")
      ->group(how);
  command.add_option("--time-limit", flags.time_limit, "Seconds after which a child that does not answer is killed")
      ->group(how)
      ->capture_default_str();
  command
      .add_option("--metric", flags.metrics,
                  "Metrics beyond the usual ones, separated by commas (see 'd5 list metrics')")
      ->group(how);
  add_result_flags(command, flags);
}

void add_result_flags(CLI::App& command, RunFlags& flags) {
  const std::string how = "How to run", show = "What to show";
  command.add_option("--mode", flags.depth, "list, build, check or measure; each does all of the one before")
      ->group(how)
      ->capture_default_str();
  command
      .add_option("--memory-limit", flags.memory_limit_gib,
                  "GiB of resident memory for a child; 0: what the machine has")
      ->group(how);
  command.add_flag("--no-pin", flags.no_pin, "Do not bind children to cores")->group(how);
  command.add_option("-o,--output", flags.folder, "Folder for records.jsonl [results/TIME-NAME]")->group(show);
  command.add_option("--csv", flags.csv, "Also write a CSV file")->group(show);
  command.add_flag("--json", flags.json, "One record a line on stdout instead of the table")->group(show);
  command.add_flag("--quiet", flags.quiet, "No progress on stderr")->group(show);
}

RunOptions run_options(const RunFlags& flags, const Json& measure) {
  RunOptions options = run_options_from(measure);
  options.depth = parse_depth(flags.depth);
  if (flags.launches) options.launches = *flags.launches;
  if (flags.rounds) options.rounds = *flags.rounds;
  if (flags.slice) options.slice_seconds = *flags.slice;
  if (!flags.stopping.empty()) options.stopping = flags.stopping;
  if (flags.width) options.relative_width = *flags.width;
  if (flags.margin) options.margin = *flags.margin;
  if (flags.max_time) options.max_seconds = *flags.max_time;
  options.limits.seconds = flags.time_limit;
  options.limits.memory_bytes = memory_limit_bytes(flags.memory_limit_gib);
  options.pin = !flags.no_pin;
  if (!flags.metrics.empty()) options.metrics = split_names(flags.metrics);
  check(options);
  return options;
}

std::string default_folder(const std::string& name) {
  const std::time_t now = std::time(nullptr);
  char stamp[32];
  std::strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", std::localtime(&now));
  std::string folder = fmt::format("results/{}-{}", stamp, name);
  for (int i = 2; std::filesystem::exists(folder); ++i) folder = fmt::format("results/{}-{}-{}", stamp, name, i);
  return folder;
}

Record environment_of(const std::vector<Json>& cases) {
  Json backends = Json::object();
  for (const BackendStatus& status : backend_statuses()) {
    const auto uses = [&](const Json& one) { return one.value("backend", "") == status.name; };
    if (status.foreign && std::ranges::none_of(cases, uses)) continue;
    backends[status.name] = {{"available", status.available}, {"note", status.reason}};
    if (status.available) backends[status.name].update(describe_backend(status.name, 1));
  }
  Record record{.kind = "environment"};
  record.details = capture_environment(backends);
  record.environment = environment_hash(record.details);
  std::set<int> thread_counts;
  for (const Json& one : cases)
    if (one.contains("threads")) thread_counts.insert(one["threads"].get<int>());
  for (int threads : thread_counts) record.details["rooflines"].push_back(to_json(cached_roofline(threads)));
  const Sharing sharing = probe_core_sharing();
  record.details["core_sharing"] = {{"ratio", sharing.ratio}, {"cores_shared", sharing.cores_shared}};
  if (sharing.cores_shared)
    record.warnings.push_back(
        fmt::format("cores shared: two threads run at {:.2f}x the rate of one; ratios hold, absolute numbers may not",
                    sharing.ratio));
  record.status = "passed";
  return record;
}

bool use_colour() { return isatty(STDOUT_FILENO) && !std::getenv("NO_COLOR"); }

int execute(const Recipe& recipe, const RunFlags& flags, const Hooks& hooks) {
  RunOptions options = run_options(flags, recipe.measure);
  const Complete complete = [](const Json& fields) { return bench_of(fields).complete(fields); };
  Recipe resolved = recipe;
  const std::vector<std::string> bad_rows =
      resolve_suites(resolved, complete, [](const Json& fields) { bench_of(fields).check_case(fields); });
  for (const std::string& problem : bad_rows) fmt::print(stderr, "d5: {}\n", problem);
  if (!recipe.blocks.empty() && resolved.blocks.empty()) throw UsageError("[suite] no row is left to run");
  const int status_of_rows = bad_rows.empty() ? exit_passed : exit_failed;
  std::vector<Json> labels;
  const std::vector<Json> cases = expand(resolved, complete, &labels);
  if (options.depth == Depth::measure) check_exports(cases);
  if (options.depth == Depth::list) {
    print_cases(cases, flags.json);
    return status_of_rows;
  }
  if (std::ranges::all_of(cases, [](const Json& one) { return bench_of(one).deepest() == Depth::check; }))
    options.depth = std::min(options.depth, Depth::check);
  std::map<std::string, Json> labels_of;
  for (size_t i = 0; i < cases.size(); ++i)
    if (!labels[i].empty()) labels_of[cases[i].dump()] = labels[i];

  const std::atomic<bool>& interrupted = interrupt_flag();
  options.folder = std::filesystem::absolute(flags.folder.empty() ? default_folder(recipe.name) : flags.folder);
  RecordWriter writer(flags.folder.empty() ? options.folder : flags.folder);
  check_csv(flags.csv);
  if (!flags.quiet)
    fmt::print(stderr, "{} case{}; looking at the machine\n", cases.size(), cases.size() == 1 ? "" : "s");
  const Record environment = environment_of(cases);
  writer.write(environment);
  if (flags.json) std::cout << to_line(environment) << "\n" << std::flush;

  std::vector<Record> records;
  const auto emit = [&](Record record) {
    record.environment = environment.environment;
    if (const auto label = labels_of.find(record.fields.dump()); label != labels_of.end())
      record.details["suites"] = label->second;
    writer.write(record);
    if (flags.json) std::cout << to_line(record) << "\n" << std::flush;
    if (hooks.made) hooks.made(record, options.folder);
    records.push_back(std::move(record));
  };
  for (const Record& refused : hooks.refused) emit(refused);
  ProgressBar bar(flags.quiet);
  run_cases(
      cases, options, emit, [&](const Progress& progress) { bar.show(progress); }, interrupted);
  bar.clear();
  writer.close();

  if (!flags.json && hooks.text)
    std::cout << hooks.text(records) << std::flush;
  else if (!flags.json)
    std::cout << tables(records, environment, options) << std::flush;
  if (!flags.csv.empty()) write_csv(flags.csv, csv_text(records));
  if (const std::string drift = trajectory_csv(records); !drift.empty())
    write_csv(options.folder + "/trajectories.csv", drift);
  if (!flags.quiet) fmt::print(stderr, "records: {}\n", writer.path());
  if (interrupted) {
    fmt::print(stderr, "interrupted: {} of {} cases are in the records\n", records.size(), cases.size());
    return exit_interrupted;
  }
  const int judged = options.depth == Depth::measure ? judge_all(recipe, records) : exit_passed;
  if (hooks.finished) {
    records.push_back(environment);
    return hooks.finished(records);
  }
  const int status = std::max(status_of(records), status_of_rows);
  return status != exit_passed ? status : judged;
}

}  // namespace d5
