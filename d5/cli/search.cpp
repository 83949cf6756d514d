// SPDX-License-Identifier: Apache-2.0
// d5 search: good values for a recipe of level 2, by trials.
#include <filesystem>
#include <iostream>

#include "d5/cli/command.hpp"
#include "d5/cli/execute.hpp"
#include "d5/cli/interrupt.hpp"
#include "d5/cli/plugins.hpp"
#include "d5/distributed/communicator.hpp"
#include "d5/recipe/values.hpp"
#include "d5/report/jsonl.hpp"
#include "d5/report/search_table.hpp"
#include "d5/runner/search.hpp"

namespace d5 {
namespace {

struct SearchFlags : RunFlags {
  std::string recipe, method, objective, per;
  std::vector<std::string> space, values, set, hosts;
  std::optional<int64_t> trials, seed;
  std::optional<int> parallel;
  bool no_confirm = false;
};

std::pair<std::string, std::string> assignment(const std::string& text, const char* option) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    throw UsageError("[search] {} '{}' is not of the form name=value", option, text);
  return {text.substr(0, equals), text.substr(equals + 1)};
}

SearchPlan plan_of(const Recipe& recipe, const SearchFlags& flags) {
  SearchPlan plan = search_plan_from(recipe);
  if (!flags.method.empty() && flags.method != plan.method) {  // the recipe's trials and values are its own method's
    plan.method = flags.method;
    plan.trials = 0;
    plan.values = {};
  }
  if (!flags.objective.empty()) plan.objective = flags.objective;
  if (flags.trials) plan.trials = *flags.trials;
  if (flags.seed) plan.seed = static_cast<uint64_t>(*flags.seed);
  if (flags.parallel) plan.parallel = *flags.parallel;
  if (plan.parallel < 1) throw UsageError("[search] parallel is {}; 1 and more are legal", plan.parallel);
  plan.hosts = flags.hosts;
  if (!plan.hosts.empty() && static_cast<size_t>(plan.parallel) > plan.hosts.size())
    throw UsageError("[search] parallel is {}, but there are {} hosts: at most one training at a time on each",
                     plan.parallel, plan.hosts.size());
  if (!plan.hosts.empty()) open_communicator("mpi");  // why it is off is said here
  if (flags.no_confirm) plan.confirm = false;
  if (!flags.space.empty()) plan.space.clear();
  for (const std::string& text : flags.space) {
    const auto [field, values] = assignment(text, "--space");
    plan.space.push_back(parse_search_field(field, values));
  }
  for (const std::string& text : flags.values) {
    const auto [name, value] = assignment(text, "--value");
    plan.values.set(name, attributes_from_json({{name, parse_value(value)}}).values().at(name));
  }
  if (!flags.per.empty()) {
    const auto [field, values] = assignment(flags.per, "--per");
    plan.per = {.field = field, .choices = parse_values(values)};
  }
  return plan;
}

// Records of the same search in this folder; UsageError where they are of another one.
std::vector<Record> known_records(const std::string& folder, const std::string& identity) {
  if (folder.empty() || !std::filesystem::exists(folder + "/records.jsonl")) return {};
  std::vector<Record> known;
  for (Record& record : read_records(folder).records) {
    const Json search = record.details.value("search", Json::object());
    if (search.value("plan", "") != identity)
      throw UsageError("[search] {} holds records of something else; give another folder with -o", folder);
    known.push_back(std::move(record));
  }
  return known;
}

int search(const SearchFlags& flags) {
  Recipe recipe = load_recipe(flags.recipe);
  if (recipe.kind != "train") throw UsageError("[search] {} is no recipe of level 2", flags.recipe);
  for (const std::string& text : flags.set) {
    const auto [field, values] = assignment(text, "--set");
    override_value(recipe, field, parse_values(values));
  }
  const SearchPlan plan = plan_of(recipe, flags);
  RunOptions options = run_options(flags, recipe.measure);
  if (options.depth != Depth::measure) throw UsageError("[search] --mode {}; legal: measure", flags.depth);
  const std::string folder = flags.folder.empty() ? default_folder("search-" + recipe.name) : flags.folder;
  options.folder = std::filesystem::absolute(folder);
  std::vector<Record> known = known_records(folder, search_identity(recipe, plan));
  if (!known.empty()) fmt::print(stderr, "going on after {} trainings in {}\n", known.size(), folder);
  const std::atomic<bool>& interrupted = interrupt_flag();
  std::optional<RecordWriter> writer;
  std::string environment;
  const auto write = [&](const Record& made) {
    if (!writer) {  // wrong usage leaves no folder behind
      writer.emplace(folder);
      const Record machine = environment_of({made.fields});
      environment = machine.environment;
      writer->write(machine);
      if (flags.json) std::cout << to_line(machine) << "\n";
    }
    Record record = made;
    record.environment = environment;
    writer->write(record);
    if (flags.json) std::cout << to_line(record) << "\n" << std::flush;
  };
  const std::vector<Record> records = run_search(recipe, plan,
                                                 {.options = options,
                                                  .known = std::move(known),
                                                  .emit = write,
                                                  .say =
                                                      [&](const std::string& line) {
                                                        if (!flags.quiet) fmt::print(stderr, "{}\n", line);
                                                      },
                                                  .interrupted = &interrupted});
  if (writer) writer->close();
  if (!flags.json) std::cout << search_text(records, use_colour()) << std::flush;
  if (!flags.quiet) fmt::print(stderr, "records: {}/records.jsonl\n", folder);
  if (interrupted) {
    fmt::print(stderr, "interrupted: the same command with -o {} goes on\n", folder);
    return exit_interrupted;
  }
  if (has_best(records)) return exit_passed;
  fmt::print(stderr, "[search] none of {} trainings succeeded at the whole length: there is no best one\n",
             records.size());
  return exit_failed;
}

}  // namespace

RunCommand add_search(CLI::App& program) {
  auto flags = std::make_shared<SearchFlags>();
  CLI::App* command = program.add_subcommand("search", "Level 2: find good values of a recipe by trials");
  command->add_option("recipe", flags->recipe, "A recipe of level 2 (.toml); its [search] says what, else --space")
      ->required();
  const std::string what = "What to search";
  command
      ->add_option("--space", flags->space,
                   "FIELD=VALUES, several times: batch=32,64, width=8..64, optimizer.learning_rate=log:0.0001..0.1; "
                   "any field that is not fixed, sizes of the network too")
      ->group(what);
  command->add_option("--method", flags->method, "grid, random, halving, hyperband, tpe, evolution or a plugin's [tpe]")
      ->group(what);
  command->add_option("--value", flags->values, "NAME=VALUE of the method (see 'd5 list search-methods')")->group(what);
  command->add_option("--objective", flags->objective, "quality, or time_to_target [quality]")->group(what);
  command->add_option("--trials", flags->trials, "Trainings [the method's own number]")->group(what);
  command->add_option("--per", flags->per, "FIELD=VALUES: a search for each of these, and a table of the best")
      ->group(what);
  command->add_option("--seed", flags->seed, "Of the method; trainings have the recipe's [1]")->group(what);
  command->add_option("--set", flags->set, "field=value: change a mutable value of the recipe")->group(what);
  command->add_option("--parallel", flags->parallel, "Trainings at a time, each on its share of the cores [1]")
      ->group("How to run");
  command
      ->add_option(
          "--hosts", flags->hosts,
          "Machines, separated by commas, that mpirun or srun reaches: the trainings under way share them, each "
          "with the recipe's ranks [this one]")
      ->delimiter(',')
      ->group("How to run");
  command->add_flag("--no-confirm", flags->no_confirm, "Do not train the best one again with the recipe's other seeds")
      ->group("How to run");
  add_plugin_options(*command);
  add_result_flags(*command, *flags);
  command->footer(
      "Example: d5 search recipes/digits-mlp.toml --space optimizer.learning_rate=log:0.0001..0.1 --trials 12\n"
      "A search that was interrupted goes on when its folder is given again with -o.");
  return [flags] { return search(*flags); };
}

}  // namespace d5
