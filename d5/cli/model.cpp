// SPDX-License-Identifier: Apache-2.0
// d5 model: networks without running them. show, export, diff, dot.
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "d5/bench/train_case.hpp"
#include "d5/cli/command.hpp"
#include "d5/cli/execute.hpp"
#include "d5/cli/open_network.hpp"
#include "d5/graph/differences.hpp"
#include "d5/graph/dot.hpp"
#include "d5/graph/fold.hpp"
#include "d5/graph/onnx/read.hpp"
#include "d5/graph/onnx/write.hpp"
#include "d5/graph/summary.hpp"
#include "d5/report/text_table.hpp"

namespace d5 {
namespace {

struct ModelFlags {
  std::string network, other, output;
  OpenOptions open;
  bool json = false, fold = false, as_read = false;
};

// "1.23 M", "456"
std::string count_text(double value) {
  static constexpr std::pair<double, const char*> units[] = {{1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {1e3, " k"}};
  for (const auto& [size, unit] : units)
    if (value >= size) return fmt::format("{:.3g}{}", value / size, unit);
  return fmt::format("{:.0f}", value);
}

std::string bytes_text(double bytes) {
  static constexpr std::pair<double, const char*> units[] = {{1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}};
  for (const auto& [size, unit] : units)
    if (bytes >= size) return fmt::format("{:.3g} {}", bytes / size, unit);
  return fmt::format("{:.0f} B", bytes);
}

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

// Names in a file may be no UTF-8.
constexpr auto any_text = nlohmann::json::error_handler_t::replace;

void show_json(const Graph& graph, const NetworkSummary& summary) {
  for (const LayerSummary& layer : summary.layers)
    std::cout << nlohmann::json{{"layer", layer.name},      {"operator", layer.op},
                                {"outputs", layer.outputs}, {"parameters", layer.parameters},
                                {"flops", layer.flops},     {"bytes", layer.bytes}}
                     .dump(-1, ' ', false, any_text)
              << "\n";
  std::cout << nlohmann::json{{"network", graph.name},
                              {"parameters", summary.parameters},
                              {"parameter_bytes", summary.parameter_bytes},
                              {"constant_bytes", summary.constant_bytes},
                              {"flops", summary.flops},
                              {"bytes", summary.bytes},
                              {"activation_bytes", summary.activation_bytes},
                              {"peak_activation_bytes", summary.peak_bytes},
                              {"unknown", summary.unknown}}
                   .dump(-1, ' ', false, any_text)
            << "\n";
}

int show(const ModelFlags& flags) {
  const Graph graph = open_network(flags.network, flags.open);
  const NetworkSummary summary = summarise(graph);
  if (flags.json) {
    show_json(graph, summary);
    return exit_passed;
  }
  for (const GraphInput& input : graph.inputs) {
    if (input.parameter) continue;
    std::string free;
    for (const std::string& symbol : input.symbols)
      if (!symbol.empty()) free += (free.empty() ? ", free: " : ", ") + symbol;
    std::cout << fmt::format("input   {}  {}{}\n", input.name,
                             input.kind == ValueKind::tensor ? to_string(input.spec) : "no tensor", free);
  }
  for (const std::string& output : graph.outputs) std::cout << fmt::format("output  {}\n", output);
  std::cout << "\n";
  TextTable table;
  table.column("layer");
  table.column("operator");
  table.column("makes");
  table.column("parameters", Align::right);
  table.column("FLOP", Align::right);
  table.column("moves", Align::right);
  for (const LayerSummary& layer : summary.layers)
    table.row({{layer.name},
               {layer.op},
               {joined(layer.outputs)},
               {layer.parameters > 0 ? count_text(layer.parameters) : ""},
               {layer.flops > 0 ? count_text(layer.flops) : ""},
               {bytes_text(layer.bytes)}});
  std::cout << table.text(false);
  std::cout << fmt::format(
      "\n{} nodes; {} parameters ({}), other constants {}; forward: {} FLOP, moves at least {}\n"
      "values that nodes make: {} in all, at most {} alive at once\n",
      summary.layers.size(), count_text(summary.parameters), bytes_text(summary.parameter_bytes),
      bytes_text(summary.constant_bytes), count_text(summary.flops), bytes_text(summary.bytes),
      bytes_text(summary.activation_bytes), bytes_text(summary.peak_bytes));
  if (!summary.unknown.empty())
    std::cout << "shapes are not all known: " << flags.network << ": " << summary.unknown << "\n";
  return exit_passed;
}

int export_network(const ModelFlags& flags) {
  if (flags.output.empty()) throw UsageError("[model] -o FILE is missing: where the network goes");
  if (flags.network.ends_with(".d5c") || flags.network.find(".d5c.") != std::string::npos) {
    const OpenOptions none;
    if (flags.fold || flags.as_read || flags.open.training || flags.open.sizes != none.sizes ||
        flags.open.dtype != none.dtype)
      throw UsageError("[model] {} is a checkpoint, whose network is what was trained; legal: -o FILE.onnx or FILE.npz",
                       flags.network);
    export_checkpoint(flags.network, flags.output);
    return exit_passed;
  }
  OpenOptions open = flags.open;
  open.initial_values = true;
  Graph graph = flags.as_read ? read_onnx(flags.network) : open_network(flags.network, open);
  if (flags.fold) fold_constants(graph, {.bound_sizes = !open.sizes.empty()});
  write_onnx(graph, flags.output);
  fmt::print(stderr, "{}: {} nodes\n", flags.output, graph.nodes.size());
  return exit_passed;
}

// Status 1 says that networks differ: one that cannot be read is another status.
Graph open_to_compare(const std::string& network, const ModelFlags& flags) {
  try {
    return flags.as_read ? read_onnx(network) : open_network(network, flags.open);
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    throw UsageError("[model] '{}' cannot be compared: {}", network, error.what());
  }
}

int diff(const ModelFlags& flags) {
  const Graph first = open_to_compare(flags.network, flags), second = open_to_compare(flags.other, flags);
  const auto lines = differences(first, second);
  for (const std::string& line : lines) std::cout << line << "\n";
  if (lines.empty()) fmt::print(stderr, "no difference\n");
  return lines.empty() ? exit_passed : exit_failed;
}

int dot(const ModelFlags& flags) {
  const std::string text = dot_text(open_network(flags.network, flags.open));
  if (flags.output.empty()) {
    std::cout << text;
    return exit_passed;
  }
  std::ofstream file(flags.output, std::ios::trunc);
  file << text;
  if (!file.flush()) throw Error("[model] {} cannot be written", flags.output);
  return exit_passed;
}

}  // namespace

RunCommand add_model(CLI::App& program, const std::vector<std::string>& arguments) {
  auto flags = std::make_shared<ModelFlags>();
  CLI::App* command = program.add_subcommand("model", "Networks without running them: show, export, diff, dot");
  command->require_subcommand(1);
  struct Action {
    const char *name, *about;
    int (*run)(const ModelFlags&);
  };
  static constexpr Action actions[] = {
      {"show", "Layers, shapes, parameters, operations, memory", show},
      {"export", "Write the network, or that of a checkpoint, as an ONNX file (a checkpoint as .npz, too)",
       export_network},
      {"diff", "What differs between two networks; exit status 1 where anything does, 2 where one cannot be read",
       diff},
      {"dot", "A drawing for Graphviz", dot},
  };
  // The networks named decide which options exist, so they are looked for before parsing.
  const bool is_chosen = !arguments.empty() && arguments[0] == "model";
  for (const Action& action : actions) {
    CLI::App* sub = command->add_subcommand(action.name, action.about);
    const std::string_view name = action.name;
    sub->add_option("network", flags->network,
                    name == "export"
                        ? "An ONNX file, a built-in name (see 'd5 list networks') or a checkpoint of a training (.d5c)"
                        : "An ONNX file or a built-in name (see 'd5 list networks')")
        ->required();
    if (name == "diff") sub->add_option("other", flags->other, "Another one")->required();
    sub->add_option("--sizes", flags->open.sizes, "Free sizes, as in N=16,sequence=128 [1 each]");
    sub->add_option("--dtype", flags->open.dtype, "f32, f64, bf16, f16: of a built-in network [f32]");
    sub->add_flag("--training", flags->open.training, "The training form of a built-in network, with its loss");
    for (const auto& [value, about] : options_of_networks(is_chosen ? arguments : std::vector<std::string>()))
      sub->add_option(option_name(value), flags->open.values[value], about)->group("Sizes of this network [default]");
    if (name == "show") sub->add_flag("--json", flags->json, "One object a line: every layer, then the whole");
    if (name == "export" || name == "dot") sub->add_option("-o,--output", flags->output, "The file to write");
    if (name == "export") sub->add_flag("--fold", flags->fold, "Compute what can be computed before the run");
    if (name == "export" || name == "diff")
      sub->add_flag("--as-read", flags->as_read, "In the words and the opset of the file, not in the newest ones");
  }
  return [flags, command] {
    for (const Action& action : actions)
      if (command->got_subcommand(action.name)) return action.run(*flags);
    return exit_usage;
  };
}

}  // namespace d5
