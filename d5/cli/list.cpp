// SPDX-License-Identifier: Apache-2.0
// d5 list: what can be named.
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "d5/backends/backend.hpp"
#include "d5/cli/command.hpp"
#include "d5/cli/plugins.hpp"
#include "d5/cli/support.hpp"
#include "d5/core/dtype.hpp"
#include "d5/core/origin.hpp"
#include "d5/core/trial.hpp"
#include "d5/datasets/augmentation.hpp"
#include "d5/datasets/decoder.hpp"
#include "d5/datasets/named.hpp"
#include "d5/datasets/parts.hpp"
#include "d5/datasets/sampler.hpp"
#include "d5/distributed/algorithm.hpp"
#include "d5/distributed/communicator.hpp"
#include "d5/graph/transform.hpp"
#include "d5/measure/metric.hpp"
#include "d5/measure/stopping.hpp"
#include "d5/networks/network.hpp"
#include "d5/operators/operator.hpp"
#include "d5/recipe/suite.hpp"
#include "d5/training/optimizer.hpp"
#include "d5/training/schedule.hpp"
#include "d5/training/scheme.hpp"
#include "d5/training/search.hpp"
#include "d5/training/task.hpp"

namespace d5 {
namespace {

using Json = nlohmann::ordered_json;

std::vector<Json> list_backends() {
  std::vector<Json> rows;
  for (const BackendStatus& status : backend_statuses())
    rows.push_back({{"name", status.name}, {"available", status.available}, {"reason", status.reason}});
  return rows;
}

Json described(const std::vector<Parameter>& parameters) {
  Json all = Json::object();
  for (const Parameter& parameter : parameters)
    all[parameter.name] = {{"about", parameter.about}, {"default", to_string(parameter.otherwise)}};
  return all;
}

std::vector<Json> list_operators() {
  std::vector<Json> rows;
  for (const std::string& name : registry_names(operators::kind))
    rows.push_back({{"name", name}, {"parameters", described(registered<operators>(name).parameters)}});
  return rows;
}

// Optimizers of a framework are in its backend's module, which is opened for that.
std::vector<Json> list_optimizers() {
  for (const BackendStatus& status : backend_statuses())
    if (status.name == "torch" && status.available) open_backend(status.name);
  std::vector<Json> rows;
  for (const std::string& name : registry_names(optimizers::kind))
    rows.push_back({{"name", name},
                    {"about", registered<optimizers>(name).about},
                    {"parameters", described(optimizer_parameters(name))}});
  return rows;
}

std::vector<Json> list_schedules() {
  std::vector<Json> rows;
  for (const std::string& name : registry_names(schedules::kind)) {
    Json parameters = described(schedule_parameters(name));
    for (Json& parameter : parameters) {  // as --schedule takes them
      std::string text = parameter["default"];
      std::ranges::replace(text, ',', '/');
      parameter["default"] = text;
    }
    rows.push_back({{"name", name}, {"about", registered<schedules>(name).about}, {"parameters", parameters}});
  }
  return rows;
}

std::vector<Json> list_search_methods() {
  std::vector<Json> rows;
  for (const std::string& name : registry_names(search_methods::kind)) {
    const search_methods::Entry& entry = registered<search_methods>(name);
    rows.push_back({{"name", name}, {"about", entry.about}, {"parameters", described(entry.parameters)}});
  }
  return rows;
}

// For one sample and the default values.
std::vector<Json> list_networks() {
  std::vector<Json> rows;
  for (const std::string& name : registry_names(networks::kind)) {
    const NetworkEntry& entry = registered<networks>(name);
    const NetworkFigures seen = figures(build_network(name, {}, 1, DType::f32, Mode::inference));
    rows.push_back({{"name", name},
                    {"trainable", seen.parameters},
                    {"forward_flops", seen.forward_flops},
                    {"multiply_adds", seen.multiply_adds},
                    {"loss", entry.loss},
                    {"about", entry.about},
                    {"parameters", described(entry.parameters)}});
  }
  return rows;
}

std::vector<Json> list_suites() {
  std::vector<Json> rows;
  for (const std::string& name : suite_names()) {
    const Suite suite = load_suite(name);
    std::map<std::string, size_t> sets;
    for (const SuiteRow& row : suite.rows) ++sets[row.set];
    sets.erase("");
    rows.push_back({{"name", name}, {"rows", suite.rows.size()}, {"sets", sets}, {"about", suite.about}});
  }
  return rows;
}

Json metric_row(const std::string& name) {
  const auto meter = registered<metrics>(name).make();
  Json row = {{"name", name},
              {"unit", meter->unit()},
              {"better", meter->smaller_is_better() ? "smaller" : "larger"},
              {"about", meter->about()}};
  if (const auto reason = meter->why_not()) row["unavailable"] = *reason;
  return row;
}

// Of a user's, what it says of itself comes from a copy of this process.
std::vector<Json> list_metrics() {
  std::vector<Json> rows;
  for (const std::string& name : registry_names(metrics::kind)) try {
      rows.push_back(is_users<metrics>(name) ? Json::parse(try_apart("[" + name + "]",
                                                                     [&](const Calling& calling) {
                                                                       calling("what it says of itself");
                                                                       return metric_row(name).dump();
                                                                     }))
                                             : metric_row(name));
    } catch (const Error& error) {
      rows.push_back({{"name", name}, {"unit", ""}, {"better", ""}, {"about", ""}, {"unavailable", error.what()}});
    }
  return rows;
}

std::vector<Json> list_transforms() {
  std::vector<Json> rows;
  for (const std::string& name : registry_names(transforms::kind))
    rows.push_back({{"name", name}, {"about", registered<transforms>(name).about}});
  return rows;
}

// Containers and decoders may need a library that is not here.
std::vector<Json> list_parts(std::string_view kind, const std::function<std::string(const std::string&)>& about) {
  std::vector<Json> rows;
  for (const PartStatus& part : all_of_kind(kind))
    rows.push_back({{"name", part.name},
                    {"available", part.available},
                    {"reason", part.available ? about(part.name) : part.reason}});
  return rows;
}

std::vector<Json> list_containers() {
  return list_parts(containers::kind, [](const std::string& name) { return container(name).about; });
}

std::vector<Json> list_decoders() {
  return list_parts(decoders::kind, [](const std::string& name) { return registered<decoders>(name).about; });
}

// What is made from options: data sets, samplers, augmentations.
template <class Registry>
std::vector<Json> list_optioned() {
  std::vector<Json> rows;
  for (const std::string& name : registry_names(Registry::kind)) {
    const typename Registry::Entry& entry = registered<Registry>(name);
    Json options = Json::object();
    for (const DataOption& option : entry.options)
      options[option.name] = {{"about", option.about}, {"default", to_string(option.otherwise)}};
    rows.push_back({{"name", name}, {"about", entry.about}, {"options", options}});
  }
  return rows;
}

std::vector<Json> list_schemes() {
  std::vector<Json> rows;
  for (const std::string& name : registry_names(schemes::kind)) {
    const schemes::Entry& entry = registered<schemes>(name);
    rows.push_back({{"name", name}, {"about", entry.about}, {"parameters", described(entry.parameters)}});
  }
  return rows;
}

std::vector<Json> list_communicators() {
  std::vector<Json> rows;
  for (const CommunicatorStatus& status : communicator_statuses())
    rows.push_back({{"name", status.name}, {"available", status.available}, {"reason", status.reason}});
  return rows;
}

std::vector<Json> list_algorithms() {
  std::vector<Json> rows;
  for (const std::string& name : registry_names(algorithms::kind))
    rows.push_back({{"name", name}, {"about", registered<algorithms>(name)->about()}});
  return rows;
}

std::vector<Json> plain(const std::vector<std::string>& names) {
  std::vector<Json> rows;
  for (const std::string& name : names) rows.push_back({{"name", name}});
  return rows;
}

std::vector<Json> list_tasks() {
  std::vector<Json> rows;
  for (const std::string& name : registry_names(tasks::kind))
    rows.push_back({{"name", name}, {"about", registered<tasks>(name).about}});
  return rows;
}

const std::map<std::string, std::function<std::vector<Json>()>>& kinds() {
  static const std::map<std::string, std::function<std::vector<Json>()>> all{
      {"backends", list_backends},
      {"operators", list_operators},
      {"networks", list_networks},
      {"optimizers", list_optimizers},
      {"schedules", list_schedules},
      {"dtypes", [] { return plain(dtype_names()); }},
      {"suites", list_suites},
      {"metrics", list_metrics},
      {"containers", list_containers},
      {"datasets", list_optioned<datasets>},
      {"samplers", list_optioned<samplers>},
      {"augmentations", list_optioned<augmentations>},
      {"decoders", list_decoders},
      {"transforms", list_transforms},
      {"search-methods", list_search_methods},
      {"tasks", list_tasks},
      {"schemes", list_schemes},
      {"communicators", list_communicators},
      {"algorithms", list_algorithms},
      {"stopping-rules", [] { return plain(registry_names(stopping_rules::kind)); }},
  };
  return all;
}

void print_row(const Json& row) {
  std::string text = row["name"];
  if (row.contains("available"))
    text = fmt::format("{:<16} {:<4} {}", text, row["available"].get<bool>() ? "on" : "off",
                       row["reason"].get<std::string>());
  if (row.contains("trainable")) {
    text = fmt::format("{:<20} {:>11} parameters {:>8.4g} GFLOP", text, row["trainable"].get<Index>(),
                       row["forward_flops"].get<double>() * 1e-9);
    for (const auto& [name, parameter] : row["parameters"].items())
      text += fmt::format(" {}={}", name, parameter["default"].get<std::string>());
  } else if (row.contains("parameters")) {
    text = fmt::format("{:<20}", text);
    for (const auto& [name, parameter] : row["parameters"].items())
      text += fmt::format(" {}={}", name, parameter["default"].get<std::string>());
  }
  if (row.contains("rows")) {
    text = fmt::format("{:<24} {:>4} rows  {}", text, row["rows"].get<size_t>(), row["about"].get<std::string>());
    for (const auto& [set, count] : row["sets"].items()) text += fmt::format("; {} {}", set, count.get<size_t>());
  }
  if (row.contains("unit")) {
    text = fmt::format("{:<16} {:<8} {:<8} {}", text, row["unit"].get<std::string>(), row["better"].get<std::string>(),
                       row["about"].get<std::string>());
    if (row.contains("unavailable")) text += fmt::format("; unavailable: {}", row["unavailable"].get<std::string>());
  }
  if (row.contains("options")) text = fmt::format("{:<16} {}", text, row["about"].get<std::string>());
  if (row.size() == 2 && row.contains("about")) text = fmt::format("{:<18} {}", text, row["about"].get<std::string>());
  std::cout << text << "\n";
}

}  // namespace

RunCommand add_list(CLI::App& program) {
  struct Flags {
    std::string kind, backends, operators;
    bool json = false, support = false;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command =
      program.add_subcommand("list", "What can be named: backends, operators, networks, suites, metrics, ...");
  command->add_option(
      "kind", flags->kind,
      "backends, operators, networks, optimizers, schedules, search-methods, tasks, schemes, datasets, "
      "containers, decoders, samplers, augmentations, dtypes, suites, metrics, transforms, communicators, "
      "algorithms (of collectives) or "
      "stopping-rules");
  command->add_flag("--json", flags->json, "One object a line");
  const std::string support = "Support (d5 list operators --support)";
  command
      ->add_flag("--support", flags->support,
                 "Which backend has which operator, by element type and pass: every conformance case is built")
      ->group(support);
  command->add_option("--backend", flags->backends, "Only these, separated by commas [all that are on]")
      ->group(support);
  command->add_option("--operator", flags->operators, "Only these, separated by commas [all]")->group(support);
  add_plugin_options(*command);
  return [flags] {
    if (flags->support && flags->kind == "operators")
      return list_support({flags->backends, flags->operators, flags->json});
    if (flags->support || !flags->backends.empty() || !flags->operators.empty())
      throw UsageError("[list] --support, --backend and --operator belong to 'd5 list operators --support'");
    std::vector<std::string> legal;
    for (const auto& [kind, make] : kinds()) legal.push_back(kind);
    if (flags->kind.empty()) {
      for (const std::string& kind : legal) std::cout << kind << "\n";
      return exit_passed;
    }
    if (!kinds().contains(flags->kind)) fail_unknown("[list]", "kind", flags->kind, legal);
    for (const Json& row : kinds().at(flags->kind)())
      flags->json ? void(std::cout << row.dump() << "\n") : print_row(row);
    return exit_passed;
  };
}

}  // namespace d5
