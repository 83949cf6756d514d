// SPDX-License-Identifier: Apache-2.0
#include "d5/cli/onnx_tests.hpp"

#include <algorithm>
#include <iostream>

#include "d5/backends/backend.hpp"
#include "d5/bench/onnx_tests.hpp"
#include "d5/cli/command.hpp"
#include "d5/cli/interrupt.hpp"
#include "d5/cli/progress.hpp"
#include "d5/report/csv.hpp"
#include "d5/report/jsonl.hpp"

namespace d5 {
namespace {

void check_backends(const std::vector<std::string>& names) {
  std::vector<std::string> legal;
  for (const BackendStatus& status : backend_statuses()) legal.push_back(status.name);
  if (names.empty()) throw UsageError("[net] --backend names none; legal: see 'd5 list backends'");
  for (const std::string& name : names)
    if (std::ranges::find(legal, name) == legal.end()) fail_unknown("[net]", "backend", name, legal);
}

}  // namespace

int run_onnx_tests(const std::string& folder, const std::vector<std::string>& backends, const RunFlags& flags) {
  check_backends(backends);
  const std::vector<Json> cases = onnx_test_cases(folder, backends);
  RunOptions options = run_options(flags, Json::object());
  if (options.depth == Depth::list) {
    print_cases(cases, flags.json);
    return exit_passed;
  }
  options.depth = std::min(options.depth, Depth::check);
  const Record environment = environment_of(cases);
  RecordWriter writer(flags.folder.empty() ? default_folder("onnx-tests") : flags.folder);
  check_csv(flags.csv);
  writer.write(environment);
  if (flags.json) std::cout << to_line(environment) << "\n" << std::flush;
  std::vector<Record> records;
  ProgressBar bar(flags.quiet || flags.json);
  run_cases(
      cases, options,
      [&](const Record& made) {
        Record record = made;
        record.environment = environment.environment;
        writer.write(record);
        if (flags.json) {
          std::cout << to_line(record) << "\n" << std::flush;
        } else if (record.status == "failed" || record.status == "error") {
          bar.clear();
          std::cout << fmt::format("{} {} on {}: {}\n", record.status, record.fields.at("test").get<std::string>(),
                                   record.fields.at("backend").get<std::string>(), record.reason)
                    << std::flush;
        }
        records.push_back(std::move(record));
      },
      [&](const Progress& progress) { bar.show(progress); }, interrupt_flag());
  bar.clear();
  writer.close();
  if (!flags.json) std::cout << onnx_tests_table(records) << std::flush;
  if (!flags.csv.empty()) write_csv(flags.csv, csv_text(records));
  if (!flags.quiet) fmt::print(stderr, "records: {}\n", writer.path());
  if (was_interrupted()) return exit_interrupted;
  const bool wrong = std::ranges::any_of(
      records, [](const Record& record) { return record.status == "failed" || record.status == "error"; });
  return wrong ? exit_failed : exit_passed;
}

}  // namespace d5
