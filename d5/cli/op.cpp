// SPDX-License-Identifier: Apache-2.0
// d5 op: level 0. Every field of a case is an option, every option an axis: --m 512,1024 --backend onednn,reference.
#include <fmt/ranges.h>

#include <filesystem>
#include <map>
#include <set>

#include "d5/bench/op_case.hpp"
#include "d5/bench/session.hpp"
#include "d5/bench/timed_record.hpp"
#include "d5/cli/command.hpp"
#include "d5/cli/execute.hpp"
#include "d5/cli/plugins.hpp"
#include "d5/core/origin.hpp"
#include "d5/operators/operator.hpp"
#include "d5/recipe/suite.hpp"
#include "d5/recipe/values.hpp"

namespace d5 {
namespace {

struct OpFlags : RunFlags {
  std::string operators_named, suites, sets;
  std::map<std::string, std::string> fields;  // field -> "512,1024"
};

// What the common fields mean; the names themselves are checked by the bench.
const std::vector<std::pair<std::string, std::string>> field_help{
    {"backend", "who computes it; the first is what the others are compared with (see 'd5 list backends')"},
    {"dtype", "f32, bf16, f64, f16, i32, ... (see 'd5 list dtypes')"},
    {"pass", "forward, backward"},
    {"threads", "number of threads of a child"},
    {"device", "cpu, cuda:0"},
    {"environment", "variables of the child: NAME=value;NAME=value"},
    {"math", "strict, tf32, bf16, winograd: what arithmetic a backend may use"},
    {"layout", "fast (the backend's own) or plain (row-major)"},
    {"reorders", "untimed or timed: conversion between plain and fast layouts"},
    {"cache", "hot or cold"},
    {"inputs", "uniform, normal, integers, nan"},
    {"gradients", "dense, or sparse where an operator touches few rows (Gather)"},
    {"deterministic", "true or false"},
    {"kernel", "builtin, or the name of a user's kernel"},
    {"seed", "of the random inputs"},
};

// Those of the rows of every suite that is named: --suite NAME or --suite=NAME.
std::vector<std::string> operators_of_suites(const std::vector<std::string>& arguments) {
  std::set<std::string> names;
  for (size_t i = 1; i < arguments.size(); ++i) {
    std::string suites;
    if (arguments[i] == "--suite" && i + 1 < arguments.size()) suites = arguments[i + 1];
    if (arguments[i].starts_with("--suite=")) suites = arguments[i].substr(8);
    if (suites.empty()) continue;
    for (const std::string& suite : split_names(suites))
      for (const SuiteRow& row : load_suite(suite).rows)
        if (const auto name = row.fields.find("operator"); name != row.fields.end() && name->is_string())
          names.insert(name->get<std::string>());
  }
  return {names.begin(), names.end()};
}

// What the files of the user brought is what is meant where nothing is named: --source my_op.cpp.
std::string operators_of_plugins() {
  std::string names;
  for (const std::string& name : registry_names(operators::kind))
    if (is_users<operators>(name)) names += (names.empty() ? "" : ",") + name;
  return names;
}

// The operators named on the command line decide which options exist, so they are looked for before parsing. Where no
// word is one, the first that follows no option was meant to be: UsageError with the nearest name.
std::vector<std::string> operators_in(const std::vector<std::string>& arguments) {
  if (arguments.size() < 2 || arguments[0] != "op") return {};
  const std::vector<std::string> of_suites = operators_of_suites(arguments);
  std::string meant;
  for (size_t i = 1; i < arguments.size(); ++i) {
    if (arguments[i].starts_with('-')) continue;
    const std::vector<std::string> names = split_names(arguments[i]);
    const auto known = [](const std::string& name) { return find_registered<operators>(name); };
    if (std::ranges::all_of(names, known)) return names;
    if (!plugins_not_opened().empty() && std::ranges::any_of(names, known)) return names;  // the rest runs
    if (meant.empty() && !arguments[i - 1].starts_with('-')) meant = arguments[i];
  }
  for (const std::string& name : split_names(meant))
    if (!name.empty()) registered<operators>(name);
  return of_suites.empty() ? split_names(operators_of_plugins()) : of_suites;
}

// An operator's own parameter would be a second option of the same name.
void refuse_taken_names(const CLI::App& fields, const std::map<std::string, std::string>& own) {
  CLI::App others;
  RunFlags flags;
  add_plugin_options(others);
  add_run_flags(others, flags);
  for (const auto& [name, about] : own) {
    const std::string option = option_name(name);
    if (!fields.get_option_no_throw(option) && !others.get_option_no_throw(option)) continue;
    std::string operators_with_it;
    for (const std::string& op : registry_names(operators::kind))
      for (const Parameter& parameter : registered<operators>(op).parameters)
        if (parameter.name == name) operators_with_it += " " + op;
    throw UsageError(
        "[op] the parameter '{}' of{} is named as an option that every operator has ({}); it needs another name", name,
        operators_with_it, option);
  }
}

// What is said of an operator that may be in a plugin that was not opened.
Record refused_operator(const std::string& op) {
  Json fields = {{"kind", "op"}, {"operator", op}};
  complete_fields("[op]", common_fields(), Json(fields), fields);
  std::string why;
  for (const std::string& problem : plugins_not_opened()) why += "; " + problem.substr(0, problem.find('\n'));
  return {.kind = "op",
          .fields = fields,
          .status = "error",
          .reason = fmt::format("[op] there is no operator '{}'{}", op, why),
          .rerun = rerun_command("op", "operator", {{"operator", op}}, {})};
}

// One block for all suites; options of their operators replace what the rows say.
void name_suites(Recipe& recipe, const OpFlags& flags) {
  Recipe::Block block;
  for (const auto& [key, text] :
       {std::pair{"suite", flags.suites}, {"set", flags.sets}, {"operator", flags.operators_named}})
    if (!text.empty()) {
      const auto words = split_names(text);
      block.axes.push_back({key, {words.begin(), words.end()}});
    }
  std::set<std::string> own;
  for (const std::string& suite : split_names(flags.suites)) {
    recipe.name += "-" + std::filesystem::path(suite).stem().string();
    for (const SuiteRow& row : load_suite(suite).rows)
      if (const auto name = row.fields.find("operator"); name != row.fields.end() && name->is_string())
        if (const OperatorEntry* entry = find_registered<operators>(name->get<std::string>()))
          for (const Parameter& parameter : entry->parameters) own.insert(parameter.name);
  }
  for (const std::string& field : own)
    if (const auto given = flags.fields.find(field); given != flags.fields.end() && !given->second.empty())
      block.axes.push_back({field, parse_values(given->second)});
  recipe.blocks.push_back(std::move(block));
}

}  // namespace

RunCommand add_op(CLI::App& program, const std::vector<std::string>& arguments) {
  auto flags = std::make_shared<OpFlags>();
  CLI::App* command = program.add_subcommand("op", "Level 0: validate and measure operators");
  command->add_option("operator", flags->operators_named,
                      "Operators, separated by commas (see 'd5 list operators'); with --suite: only rows of these");
  const std::string of_suites = "Suites of cases";
  command->add_option("--suite", flags->suites, "Suites by name (see 'd5 list suites'), or CSV files")
      ->group(of_suites);
  command->add_option("--set", flags->sets, "Only rows with one of these labels: training, inference_server, ...")
      ->group(of_suites);
  for (const auto& [field, about] : field_help)
    command->add_option(option_name(field), flags->fields[field], about)
        ->group("Case (each takes several values, separated by commas)");
  std::map<std::string, std::string> own;
  for (const std::string& name : operators_in(arguments))
    if (const OperatorEntry* entry = find_registered<operators>(name))
      for (const Parameter& parameter : entry->parameters)
        own.try_emplace(parameter.name, fmt::format("{} [{}]", parameter.about, to_string(parameter.otherwise)));
  refuse_taken_names(*command, own);
  for (const auto& [field, about] : own)
    command->add_option(option_name(field), flags->fields[field], about)
        ->group("Sizes and attributes of this operator [default]");
  command->allow_extras(!plugins_not_opened().empty());  // options of operators that are not there
  add_plugin_options(*command);
  add_run_flags(*command, *flags);
  command->footer(
      "Example: d5 op Gemm --m 512,1024 --n 128 --k 512 --backend onednn,reference --pass forward,backward --threads "
      "1,2\n"
      "'d5 op OPERATOR --help' lists the sizes and attributes of an operator.");

  return [flags, command] {
    Recipe recipe{.name = "op", .kind = "op"};
    Hooks hooks;
    if (const auto words = command->remaining(); !words.empty())
      fmt::print(stderr, "warning: [op] nothing that is there has {}\n", fmt::join(words, " "));
    if (!flags->suites.empty()) {
      name_suites(recipe, *flags);
    } else if (flags->operators_named.empty()) {
      flags->operators_named = operators_of_plugins();
      if (flags->operators_named.empty())
        throw UsageError("[op] neither an operator nor --suite is named; see 'd5 list operators' and 'd5 list suites'");
    } else if (!flags->sets.empty()) {
      throw UsageError("[op] --set '{}' without --suite: only the rows of a suite have such labels", flags->sets);
    }
    for (const std::string& op : split_names(flags->suites.empty() ? flags->operators_named : "")) {
      if (op.empty()) break;
      if (!plugins_not_opened().empty() && !find_registered<operators>(op)) {
        hooks.refused.push_back(refused_operator(op));
        continue;
      }
      recipe.name += "-" + op;
      recipe.blocks.push_back({.values = {{"operator", op}}});
      const OperatorEntry& entry = registered<operators>(op);
      // An option that another named operator has does not concern this one.
      for (const Parameter& parameter : entry.parameters)
        if (const auto found = flags->fields.find(parameter.name);
            found != flags->fields.end() && !found->second.empty())
          recipe.blocks.back().axes.push_back({parameter.name, parse_values(found->second)});
    }
    // Compared fields vary fastest, so that a table has its members side by side.
    for (const char* field : {"dtype", "pass", "threads", "math", "layout", "reorders", "cache", "inputs", "gradients",
                              "deterministic", "seed", "environment", "device", "kernel", "backend"})
      if (!flags->fields[field].empty()) recipe.axes.push_back({field, parse_values(flags->fields[field])});
    return execute(recipe, *flags, hooks);
  };
}

}  // namespace d5
