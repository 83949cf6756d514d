// SPDX-License-Identifier: Apache-2.0
// d5 net: validate and measure networks.
#include <map>
#include <set>

#include "d5/bench/net_case.hpp"
#include "d5/cli/command.hpp"
#include "d5/cli/execute.hpp"
#include "d5/cli/plugins.hpp"
#include "d5/networks/network.hpp"
#include "d5/recipe/values.hpp"

namespace d5 {
namespace {

struct NetFlags : RunFlags {
  std::string networks_named;
  std::map<std::string, std::string> fields;
};

const std::vector<std::pair<std::string, std::string>> field_help = {
    {"backend", "who computes it; the first is what the others are compared with (see 'd5 list backends')"},
    {"batch", "samples in one step"},
    {"dtype", "f32, f64, bf16, f16: of a built-in network"},
    {"pass", "forward (the network as it is used), backward, or step (forward and backward, as it learns)"},
    {"threads", "number of threads of a child"},
    {"device", "cpu, cuda:0"},
    {"environment", "variables of the child: NAME=value;NAME=value"},
    {"math", "strict, tf32, bf16, winograd: what arithmetic a backend may use"},
    {"layout", "fast (the backend's own) or plain (row-major)"},
    {"transform", "changes of the network, one after the other, joined by '+' (see 'd5 list transforms')"},
    {"cache", "hot or cold"},
    {"deterministic", "true or false"},
    {"fallback", "error, or reference: nodes without a kernel run by plain loops; such a case gets no verdict"},
    {"seed", "of parameters and inputs"}};

// The networks named decide which options exist, so they are looked for before parsing.
std::map<std::string, std::string> options_of_networks(const std::vector<std::string>& arguments) {
  std::map<std::string, std::string> own;
  if (arguments.empty() || arguments[0] != "net") return own;
  for (const std::string& argument : arguments)
    for (const std::string& name : split_words(argument))
      if (const NetworkEntry* entry = find_registered<networks>(name))
        for (const Parameter& parameter : entry->parameters)
          own.try_emplace(parameter.name, fmt::format("{} [{}]", parameter.about, to_string(parameter.otherwise)));
  return own;
}

}  // namespace

RunCommand add_net(CLI::App& program, const std::vector<std::string>& arguments) {
  auto flags = std::make_shared<NetFlags>();
  CLI::App* command = program.add_subcommand("net", "Level 1: validate and measure networks");
  command->add_option("network", flags->networks_named,
                      "Built-in networks (see 'd5 list networks'), separated by commas");
  for (const auto& [field, about] : field_help)
    command->add_option(option_name(field), flags->fields[field], about)
        ->group("Case (each takes several values, separated by commas)");
  for (const auto& [field, about] : options_of_networks(arguments))
    if (!flags->fields.contains(field))
      command->add_option(option_name(field), flags->fields[field], about)->group("Sizes of this network [default]");
  add_plugin_options(*command);
  add_run_flags(*command, *flags);
  command->footer(
      "Example: d5 net resnet-50 --batch 1,16 --backend onednn,torch --threads 1,2\n"
      "'d5 net NETWORK --help' lists the sizes of a network.");
  return [flags] {
    if (flags->networks_named.empty()) throw UsageError("[net] no network is named; see 'd5 list networks'");
    Recipe recipe{.name = "net", .kind = "net"};
    std::set<std::string> common;
    for (const CaseField& field : network_fields()) common.insert(field.name);
    for (const std::string& network : split_words(flags->networks_named)) {
      recipe.name += "-" + network;
      recipe.blocks.push_back({.values = {{"network", network}}});
      for (const Parameter& parameter : own_parameters(network))
        if (const auto found = flags->fields.find(parameter.name);
            found != flags->fields.end() && !found->second.empty() && !common.contains(parameter.name))
          recipe.blocks.back().axes.push_back({parameter.name, parse_values(found->second)});
    }
    // Compared fields vary fastest, so that a table has its members side by side.
    for (const char* field : {"dtype", "pass", "batch", "threads", "math", "layout", "transform", "cache",
                              "deterministic", "fallback", "seed", "environment", "device", "backend"})
      if (!flags->fields[field].empty()) recipe.axes.push_back({field, parse_values(flags->fields[field])});
    return execute(recipe, *flags);
  };
}

}  // namespace d5
