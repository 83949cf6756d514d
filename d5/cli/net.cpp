// SPDX-License-Identifier: Apache-2.0
// d5 net: validate and measure networks; run suites of ONNX tests.
#include <filesystem>
#include <map>
#include <set>

#include "d5/bench/net_case.hpp"
#include "d5/cli/command.hpp"
#include "d5/cli/execute.hpp"
#include "d5/cli/net_views.hpp"
#include "d5/cli/onnx_tests.hpp"
#include "d5/cli/open_network.hpp"
#include "d5/cli/plugins.hpp"
#include "d5/recipe/values.hpp"

namespace d5 {
namespace {

struct NetFlags : RunFlags {
  std::string networks_named, onnx_tests;
  std::map<std::string, std::string> fields;
  NetViewFlags view;
};

const std::vector<std::pair<std::string, std::string>> field_help = {
    {"backend", "who computes it; the first is what the others are compared with (see 'd5 list backends')"},
    {"batch", "samples in one step"},
    {"sizes", "free sizes of a file beside the batch, all of one case: H=224,W=224 [1 each]"},
    {"dtype", "f32, f64, bf16, f16: of a built-in network"},
    {"pass", "forward (the network as it is used), backward, or step (forward and backward, as it learns)"},
    {"threads", "number of threads of a child"},
    {"device", "cpu, cuda:0"},
    {"environment", "variables of the child: NAME=value;NAME=value"},
    {"math", "strict, tf32, bf16, winograd: what arithmetic a backend may use"},
    {"layout", "fast (the backend's own) or plain (row-major)"},
    {"transform", "changes of the network, one after the other, joined by '+' (see 'd5 list transforms')"},
    {"kernel", "builtin, or another kernel of the backend for operators that have one of that name: im2col"},
    {"arena_limit", "MiB that activations, gradients and workspace of a step may take; 0: no limit"},
    {"cache", "hot or cold"},
    {"deterministic", "true or false"},
    {"fallback", "error, or reference: nodes without a kernel run by plain loops; such a case gets no verdict"},
    {"seed", "of parameters and inputs"}};

}  // namespace

RunCommand add_net(CLI::App& program, const std::vector<std::string>& arguments) {
  auto flags = std::make_shared<NetFlags>();
  CLI::App* command = program.add_subcommand("net", "Level 1: validate and measure networks");
  command->add_option("network", flags->networks_named,
                      "ONNX files or built-in names (see 'd5 list networks'), separated by commas");
  command->add_option("--onnx-tests", flags->onnx_tests,
                      "Folder with ONNX tests instead: every folder below it, at any depth, with one .onnx file and "
                      "test_data_set_* folders is a case of every --backend");
  for (const auto& [field, about] : field_help)
    command->add_option(option_name(field), flags->fields[field], about)
        ->group("Case (each takes several values, separated by commas)");
  // The networks named decide which options exist, so they are looked for before parsing.
  const bool is_chosen = !arguments.empty() && arguments[0] == "net";
  for (const auto& [field, about] : options_of_networks(is_chosen ? arguments : std::vector<std::string>()))
    if (!flags->fields.contains(field))
      command->add_option(option_name(field), flags->fields[field], about)->group("Sizes of this network [default]");
  add_net_view_options(*command, flags->view);
  add_plugin_options(*command);
  add_run_flags(*command, *flags);
  command->footer(
      "Example: d5 net resnet-50 --batch 1,16 --backend onednn,torch,onnxruntime --threads 1,2\n"
      "         d5 net --onnx-tests node --backend reference,onednn\n"
      "'d5 net NETWORK --help' lists the sizes of a network.");
  return [flags] {
    if (!flags->onnx_tests.empty()) {
      if (!flags->networks_named.empty())
        throw UsageError("[net] '{}' and --onnx-tests: one of the two", flags->networks_named);
      const std::string& backends = flags->fields["backend"];
      return run_onnx_tests(flags->onnx_tests, split_names(backends.empty() ? "reference" : backends), *flags);
    }
    if (flags->networks_named.empty())
      throw UsageError("[net] no network is named; give an ONNX file or a name of 'd5 list networks'");
    Recipe recipe{.name = "net", .kind = "net"};
    std::set<std::string> common;
    for (const CaseField& field : network_fields()) common.insert(field.name);
    for (const std::string& network : split_names(flags->networks_named)) {
      recipe.name += "-" + std::filesystem::path(network).stem().string();
      recipe.blocks.push_back({.values = {{"network", network}}});
      for (const Parameter& parameter : own_parameters(network))
        if (const auto found = flags->fields.find(parameter.name);
            found != flags->fields.end() && !found->second.empty() && !common.contains(parameter.name))
          recipe.blocks.back().axes.push_back({parameter.name, parse_values(found->second)});
    }
    // Compared fields vary fastest, so that a table has its members side by side.
    for (const char* field :
         {"dtype", "pass", "batch", "threads", "math", "layout", "cache", "deterministic", "fallback", "seed",
          "environment", "device", "kernel", "arena_limit", "transform", "backend"})
      if (!flags->fields[field].empty()) recipe.axes.push_back({field, parse_values(flags->fields[field])});
    if (!flags->fields["sizes"].empty()) recipe.axes.push_back({"sizes", {flags->fields["sizes"]}});
    return run_net_view(recipe, *flags, flags->view);
  };
}

}  // namespace d5
