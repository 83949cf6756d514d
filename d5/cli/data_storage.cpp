// SPDX-License-Identifier: Apache-2.0
// d5 data storage: what the storage behind a folder gives, hot and cold, reading and writing: the bounds of everything
// that reads samples or writes checkpoints there. Several folders are compared with the first.
#include <fmt/ranges.h>

#include <algorithm>
#include <iostream>

#include "d5/bench/storage_record.hpp"
#include "d5/cli/command.hpp"
#include "d5/cli/execute.hpp"
#include "d5/cli/interrupt.hpp"
#include "d5/report/console.hpp"
#include "d5/report/csv.hpp"
#include "d5/report/jsonl.hpp"

namespace d5 {
namespace {

struct StorageFlags {
  StoragePlan plan;
  std::string loads, caches = "hot,cold", folder, csv;
  bool json = false, quiet = false;
};

StoragePlan plan_of(const StorageFlags& flags) {
  StoragePlan plan = flags.plan;
  plan.caches = split_names(flags.caches);
  plan.loads = split_names(flags.loads);
  const auto staging = [](const std::string& load) { return load == "staging"; };
  if (flags.loads.empty()) {
    plan.loads = storage_loads();
    if (plan.stage.empty()) std::erase_if(plan.loads, staging);
  } else if (!plan.stage.empty() && std::ranges::none_of(plan.loads, staging)) {
    throw UsageError("[storage] --stage is copied by the load staging, which --load {} leaves out", flags.loads);
  }
  return plan;
}

int measure_storage(const StorageFlags& flags) {
  const StoragePlan plan = plan_of(flags);
  check(plan);
  const std::atomic<bool>& interrupted = interrupt_flag();
  const Record environment = environment_of({});
  RecordWriter writer(flags.folder.empty() ? default_folder("storage") : flags.folder);
  check_csv(flags.csv);
  const auto write = [&](const Record& record) {
    writer.write(record);
    if (flags.json) std::cout << to_line(record) << "\n" << std::flush;
  };
  write(environment);
  std::string told;
  const auto go_on = [&](const Record& of, int launch) {
    const std::string now =
        fmt::format("{}, launch {} of {}", of.fields["path"].get<std::string>(), launch + 1, plan.launches);
    if (!flags.quiet && !interrupted && now != told) fmt::print(stderr, "{}\n", told = now);
    return !interrupted;
  };
  std::vector<Record> records = storage_records(plan, go_on);
  int status = exit_passed;
  for (Record& record : records) {
    record.environment = environment.environment;
    if (record.status == "error") status = exit_failed;
    write(record);
  }
  writer.close();
  if (!flags.json) std::cout << console_text(records, {&environment, 1}, {.colour = use_colour()}) << std::flush;
  if (!flags.csv.empty()) write_csv(flags.csv, csv_text(records));
  if (!flags.quiet) fmt::print(stderr, "records: {}\n", writer.path());
  return interrupted ? exit_interrupted : status;
}

}  // namespace

RunCommand add_data_storage(CLI::App& data) {
  auto flags = std::make_shared<StorageFlags>();
  CLI::App* command = data.add_subcommand("storage", "Read, write, small-file and checkpoint rates of a folder");
  const std::string what = "Case", how = "How to run", show = "What to show";
  StoragePlan& plan = flags->plan;
  command
      ->add_option("folders", plan.folders,
                   "Folders to measure: a local disk, a shared file system, ...; compared with the first")
      ->required();
  command
      ->add_option("--load", flags->loads,
                   fmt::format("Only these, separated by commas: {} [all]", fmt::join(storage_loads(), ", ")))
      ->group(what);
  command->add_option("--cache", flags->caches, "Of reads: hot, cold")->group(what)->capture_default_str();
  command->add_option("--mebibytes", plan.mebibytes, "Of the file that is read, and of the checkpoint")
      ->group(what)
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--block", plan.block, "Bytes of a random read and of a small file")
      ->group(what)
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str();
  command->add_option("--files", plan.files, "Small files")
      ->group(what)
      ->check(CLI::Range(1, 10000000))
      ->capture_default_str();
  command->add_option("--threads", plan.threads, "That read the file")
      ->group(what)
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command->add_option("--stage", plan.stage, "A file or folder that is copied to each folder")->group(what);
  command->add_option("--launches", plan.launches, "Times all is measured, with new files")
      ->group(how)
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  command->add_option("-o,--output", flags->folder, "Folder for records.jsonl [results/TIME-storage]")->group(show);
  command->add_option("--csv", flags->csv, "Also write a CSV file")->group(show);
  command->add_flag("--json", flags->json, "One record a line on stdout instead of the table")->group(show);
  command->add_flag("--quiet", flags->quiet, "No progress on stderr")->group(show);
  command->footer(
      "Example: d5 data storage /local/scratch /shared\n"
      "         d5 data storage /shared --load staging --stage ~/data/cifar10\n"
      "         d5 data storage . --load random-read --cache cold --block 65536 --threads 8");
  return [flags] { return measure_storage(*flags); };
}

}  // namespace d5
