// SPDX-License-Identifier: Apache-2.0
// d5 compare A B: the cases of two result files, ratio by ratio; as a gate with --fail-on.
#include <iostream>
#include <nlohmann/json.hpp>

#include "d5/cli/command.hpp"
#include "d5/cli/execute.hpp"
#include "d5/report/compare.hpp"
#include "d5/report/jsonl.hpp"

namespace d5 {
namespace {

struct CompareFlags {
  std::string first, second, fail_on;
  std::vector<std::string> ignore;
  double margin = 0.01;
  bool json = false;
};

RecordFile read_and_warn(const std::string& path) {
  RecordFile file = read_records(path);
  for (const std::string& problem : file.problems) fmt::print(stderr, "warning: {}\n", problem);
  return file;
}

void print_json(const RecordComparison& comparison) {
  for (const CompareRow& row : comparison.rows) {
    const Comparison& c = row.comparison;
    nlohmann::ordered_json json = {{"case", row.name},
                                   {"first_s", row.first_seconds},
                                   {"second_s", row.second_seconds},
                                   {"ratio", c.ratio},
                                   {"interval", nullptr},
                                   {"verdict", to_string(c.verdict)},
                                   {"method", c.method},
                                   {"units", c.units},
                                   {"note", c.note}};
    if (c.interval) json["interval"] = {c.interval->low, c.interval->high};
    std::cout << json.dump() << "\n";
  }
}

int compare(const CompareFlags& flags) {
  const CompareOptions options{.ignore = flags.ignore, .verdicts = {.margin = flags.margin}};
  const RecordComparison result =
      compare_records(read_and_warn(flags.first).records, read_and_warn(flags.second).records, options);
  if (flags.json)
    print_json(result);
  else
    std::cout << compare_text(result, options, use_colour());
  if (flags.fail_on.empty()) return exit_passed;
  const std::vector<std::string> reasons = gate(result, flags.fail_on);
  for (const std::string& reason : reasons) fmt::print(stderr, "gate: {}\n", reason);
  return reasons.empty() ? exit_passed : exit_refused;
}

}  // namespace

RunCommand add_compare(CLI::App& program) {
  auto flags = std::make_shared<CompareFlags>();
  CLI::App* command =
      program.add_subcommand("compare", "Compare the cases of two result files; the ratio is second / first");
  command->add_option("first", flags->first, "A results folder or records.jsonl: the base")->required();
  command->add_option("second", flags->second, "The other one")->required();
  command->add_option("--ignore", flags->ignore, "Case fields that may differ, such as backend or threads")
      ->delimiter(',');
  command->add_option("--margin", flags->margin, "Ratios within this of 1 are 'same'")->capture_default_str();
  command->add_option("--fail-on", flags->fail_on,
                      "slower, different or unclear (several by commas): exit with 3 when found");
  command->add_flag("--json", flags->json, "One object a line");
  command->footer("Example: d5 compare results/before results/after --fail-on slower");
  return [flags] { return compare(*flags); };
}

}  // namespace d5
