// SPDX-License-Identifier: Apache-2.0
// d5 net: level 1. `--onnx-tests DIR` runs a suite of ONNX tests on every backend that is named.
#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "d5/backends/backend.hpp"
#include "d5/bench/onnx_tests.hpp"
#include "d5/cli/command.hpp"
#include "d5/cli/execute.hpp"
#include "d5/cli/interrupt.hpp"
#include "d5/cli/progress.hpp"
#include "d5/report/jsonl.hpp"

namespace d5 {
namespace {

struct NetFlags : RunFlags {
  std::string onnx_tests, backends = "reference";
};

void check_backends(const std::vector<std::string>& names) {
  std::vector<std::string> legal;
  for (const BackendStatus& status : backend_statuses()) legal.push_back(status.name);
  if (names.empty()) throw UsageError("[net] --backend names none; legal: see 'd5 list backends'");
  for (const std::string& name : names)
    if (std::ranges::find(legal, name) == legal.end()) fail_unknown("[net]", "backend", name, legal);
}

int run_onnx_tests(const NetFlags& flags) {
  const std::vector<std::string> backends = split_names(flags.backends);
  check_backends(backends);
  const std::vector<Json> cases = onnx_test_cases(flags.onnx_tests, backends);
  RunOptions options = run_options(flags, Json::object());
  options.depth = Depth::check;
  const Record environment = environment_of(cases);
  RecordWriter writer(flags.folder.empty() ? default_folder("onnx-tests") : flags.folder);
  writer.write(environment);
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
  if (!flags.quiet) fmt::print(stderr, "records: {}\n", writer.path());
  if (was_interrupted()) return exit_interrupted;
  const bool wrong = std::ranges::any_of(
      records, [](const Record& record) { return record.status == "failed" || record.status == "error"; });
  return wrong ? exit_failed : exit_passed;
}

}  // namespace

RunCommand add_net(CLI::App& program) {
  auto flags = std::make_shared<NetFlags>();
  flags->time_limit = 600;
  CLI::App* command = program.add_subcommand("net", "Level 1: run suites of networks against stored outputs");
  command->add_option("--onnx-tests", flags->onnx_tests,
                      "Folder with ONNX tests: every folder below it, at any depth, with one .onnx file and "
                      "test_data_set_* folders is a case");
  command->add_option("--backend", flags->backends, "Backends, separated by commas (see 'd5 list backends')")
      ->capture_default_str();
  command->add_option("--time-limit", flags->time_limit, "Seconds after which a case that does not end is killed")
      ->capture_default_str();
  command->add_option("--memory-limit", flags->memory_limit_gib,
                      "GiB of resident memory for a child; 0: what the machine has");
  command->add_option("-o,--output", flags->folder, "Folder for records.jsonl [results/TIME-onnx-tests]");
  command->add_flag("--json", flags->json, "One record a line on stdout instead of the table");
  command->add_flag("--quiet", flags->quiet, "No progress on stderr");
  command->footer("Example: d5 net --onnx-tests node --backend reference,onednn");
  return [flags] {
    if (flags->onnx_tests.empty()) throw UsageError("[net] --onnx-tests DIR is missing; see 'd5 net --help'");
    return run_onnx_tests(*flags);
  };
}

}  // namespace d5
