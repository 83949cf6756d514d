// SPDX-License-Identifier: Apache-2.0
// d5 run: a recipe, or a record to reproduce.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <set>

#include "d5/bench/session.hpp"
#include "d5/bench/train_case.hpp"
#include "d5/cli/command.hpp"
#include "d5/cli/execute.hpp"
#include "d5/cli/plugins.hpp"
#include "d5/core/plugins.hpp"
#include "d5/recipe/values.hpp"
#include "d5/report/jsonl.hpp"
#include "d5/report/reproduce.hpp"

namespace d5 {
namespace {

struct RunRecipeFlags : RunFlags {
  std::string what;
  std::vector<std::string> set;
};

int run_recipe(const RunRecipeFlags& flags) {
  Recipe recipe = load_recipe(flags.what);
  for (const std::string& assignment : flags.set) {
    const size_t equals = assignment.find('=');
    if (equals == std::string::npos) throw UsageError("[run] --set '{}' is not of the form field=value", assignment);
    override_value(recipe, assignment.substr(0, equals), parse_values(assignment.substr(equals + 1)));
  }
  return execute(recipe, flags);
}

// Files of a user are never opened because a record names them: that is for the one who runs it to say.
void warn_of_missing_plugins(const std::vector<Record>& records) {
  std::set<std::string> files;
  for (const Record& record : records)
    if (const auto plugins = record.details.find("plugins"); plugins != record.details.end() && plugins->is_array())
      for (const auto& plugin : *plugins)
        if (plugin.is_object() && plugin.contains("file") && plugin["file"].is_string())
          files.insert(plugin["file"].get<std::string>());
  for (const Plugin& plugin : opened_plugins()) files.erase(plugin.given);
  for (const std::string& file : files)
    fmt::print(stderr, "warning: the records were made with {}; give it with --source or --plugin\n", file);
}

// Nothing of the user's is overwritten, and nothing is taken from a checkpoint: what is repeated begins at its
// beginning.
Json without_files(Json fields, const std::string& kind) {
  if (kind == "train")
    for (const CaseField& field : train_fields())
      if (std::ranges::find(beside_training, field.name) != beside_training.end()) fields[field.name] = field.otherwise;
  return fields;
}

// The same cases again; each is compared with what the record says of it.
int reproduce(const RunRecipeFlags& flags) {
  if (!flags.set.empty()) throw UsageError("[run] --set changes recipes; {} is a record", flags.what);
  const RecordFile before = read_records(flags.what);
  for (const std::string& problem : before.problems) fmt::print(stderr, "warning: {}\n", problem);
  warn_of_missing_plugins(before.records);
  Recipe recipe{.name = "again"};
  for (const Record& record : before.records) {
    if (!find_registered<benches>(record.kind))
      throw UsageError("[run] {}: a record of kind '{}' is repeated by its own command alone: {}", flags.what,
                       record.kind, record.rerun);
    recipe.kind = record.kind;
    recipe.blocks.push_back({.values = without_files(record.fields, record.kind)});
  }
  if (recipe.blocks.empty()) throw UsageError("[run] {} holds no records of cases", flags.what);
  return execute(recipe, flags, {.finished = [&](const std::vector<Record>& after) {
                   const Reproduction result = reproduce_records(before, after);
                   std::cout << "\n" << to_text(result);
                   return result.agrees ? exit_passed : exit_refused;
                 }});
}

}  // namespace

RunCommand add_run(CLI::App& program) {
  auto flags = std::make_shared<RunRecipeFlags>();
  CLI::App* command =
      program.add_subcommand("run", "Run a recipe, or repeat the cases of a records file and say whether they agree");
  command->add_option("what", flags->what, "A recipe (.toml), or a results folder or records.jsonl")->required();
  command->add_option("--set", flags->set, "field=value[,value]: change a mutable value of the recipe");
  add_plugin_options(*command);
  add_run_flags(*command, *flags);
  command->footer(
      "Example: d5 run recipes/quick.toml --set threads=1,2\n"
      "Repeating a record exits with 3 when a case does not agree.");
  return [flags] { return flags->what.ends_with(".toml") ? run_recipe(*flags) : reproduce(*flags); };
}

}  // namespace d5
