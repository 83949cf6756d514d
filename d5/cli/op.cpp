// SPDX-License-Identifier: Apache-2.0
// d5 op: level 0. Every field of a case is an option, every option an axis: --m 512,1024 --backend onednn,reference.
#include <map>

#include "d5/bench/session.hpp"
#include "d5/cli/command.hpp"
#include "d5/cli/execute.hpp"
#include "d5/cli/plugins.hpp"
#include "d5/cli/values.hpp"
#include "d5/operators/operator.hpp"

namespace d5 {
namespace {

struct OpFlags : RunFlags {
  std::string operators_named;
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

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> words;
  for (const auto& value : parse_values(text))
    words.push_back(value.is_string() ? value.get<std::string>() : value.dump());
  return words;
}

// The operators named on the command line decide which options exist, so they are looked for before parsing. Where no
// word is one, the first that follows no option was meant to be: UsageError with the nearest name.
std::vector<std::string> operators_in(const std::vector<std::string>& arguments) {
  if (arguments.size() < 2 || arguments[0] != "op") return {};
  std::string meant;
  for (size_t i = 1; i < arguments.size(); ++i) {
    if (arguments[i].starts_with('-')) continue;
    const std::vector<std::string> names = split(arguments[i]);
    if (std::ranges::all_of(names, [](const std::string& name) { return find_registered<operators>(name); }))
      return names;
    if (meant.empty() && !arguments[i - 1].starts_with('-')) meant = arguments[i];
  }
  for (const std::string& name : split(meant))
    if (!name.empty()) registered<operators>(name);
  return {};
}

std::string option_name(std::string field) {
  std::ranges::replace(field, '_', '-');
  return "--" + field;
}

}  // namespace

RunCommand add_op(CLI::App& program, const std::vector<std::string>& arguments) {
  auto flags = std::make_shared<OpFlags>();
  CLI::App* command = program.add_subcommand("op", "Level 0: validate and measure operators");
  command->add_option("operator", flags->operators_named, "Operators, separated by commas (see 'd5 list operators')")
      ->required();
  for (const auto& [field, about] : field_help)
    command->add_option(option_name(field), flags->fields[field], about)
        ->group("Case (each takes several values, separated by commas)");
  std::map<std::string, std::string> own;
  for (const std::string& name : operators_in(arguments))
    if (const OperatorEntry* entry = find_registered<operators>(name))
      for (const Parameter& parameter : entry->parameters)
        own.try_emplace(parameter.name, fmt::format("{} [{}]", parameter.about, to_string(parameter.otherwise)));
  for (const auto& [field, about] : own)
    command->add_option(option_name(field), flags->fields[field], about)
        ->group("Sizes and attributes of this operator [default]");
  add_plugin_options(*command);
  add_run_flags(*command, *flags);
  command->footer(
      "Example: d5 op Gemm --m 512,1024 --n 128 --k 512 --backend onednn,reference --pass forward,backward --threads "
      "1,2\n"
      "'d5 op OPERATOR --help' lists the sizes and attributes of an operator.");

  return [flags] {
    Recipe recipe{.name = "op", .kind = "op"};
    for (const std::string& op : split(flags->operators_named)) {
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
    return execute(recipe, *flags);
  };
}

}  // namespace d5
