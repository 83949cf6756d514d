// SPDX-License-Identifier: Apache-2.0
// d5 compare A B: the cases of two result files, ratio by ratio; as a gate with --fail-on.
#include <iostream>
#include <nlohmann/json.hpp>

#include "d5/cli/command.hpp"
#include "d5/cli/execute.hpp"
#include "d5/report/compare.hpp"
#include "d5/report/convergence.hpp"
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

void print_json(const std::vector<Convergence>& all) {
  for (const Convergence& one : all) {
    nlohmann::ordered_json json = {{"convergence", one.name},  {"first_runs", one.reference_runs},
                                   {"second_runs", one.runs},  {"first_epochs", nullptr},
                                   {"second_epochs", nullptr}, {"p", nullptr},
                                   {"too_fast", one.too_fast}};
    if (one.comparison) {
      json["first_epochs"] = one.comparison->second_mean;
      json["second_epochs"] = one.comparison->first_mean;
      json["p"] = one.comparison->p_smaller;
    }
    std::cout << json.dump() << "\n";
  }
}

// Trainings have no launches: what is compared of them is how fast they converge.
std::vector<Record> timed(const std::vector<Record>& records) {
  std::vector<Record> result;
  for (const Record& record : records)
    if (record.kind != "train") result.push_back(record);
  return result;
}

int compare(const CompareFlags& flags) {
  const CompareOptions options{.ignore = flags.ignore, .verdicts = {.margin = flags.margin}};
  const std::vector<Record> first = read_and_warn(flags.first).records, second = read_and_warn(flags.second).records;
  const RecordComparison result = compare_records(timed(first), timed(second), options);
  const std::vector<Convergence> convergence = compare_convergence(first, second, flags.ignore);
  if (flags.json) {
    print_json(result);
    print_json(convergence);
  } else {
    std::cout << compare_text(result, options, use_colour()) << convergence_text(convergence);
  }
  if (flags.fail_on.empty()) return exit_passed;
  std::vector<std::string> reasons;
  for (const Convergence& one : convergence)
    if (one.too_fast) reasons.push_back(one.name + ": it converges faster than the first set allows");
  const std::vector<std::string> of_times = gate(result, flags.fail_on);
  if (!result.rows.empty() || !result.refused.empty() || convergence.empty())  // else there are trainings alone
    reasons.insert(reasons.end(), of_times.begin(), of_times.end());
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
                      "slower, different or unclear (several by commas): exit with 3 when found, or where a training "
                      "converges faster than the first set allows");
  command->add_flag("--json", flags->json, "One object a line");
  command->footer("Example: d5 compare results/before results/after --fail-on slower");
  return [flags] { return compare(*flags); };
}

}  // namespace d5
