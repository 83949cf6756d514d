// SPDX-License-Identifier: Apache-2.0
#include "d5/cli/plugins.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "d5/core/plugins.hpp"
#include "d5/runner/source.hpp"

namespace d5 {
namespace {

void open_and_warn(const Plugin& plugin) {
  for (const Plugin& other : opened_plugins())
    if (other.given == plugin.given) return;
  if (open_plugin(plugin) == 0)
    fmt::print(stderr, "warning: [plugin] {} registers nothing; it ends with a line like D5_REGISTER(operators, ...)\n",
               plugin.given);
}

}  // namespace

void add_plugin_options(CLI::App& command) {
  const std::string group = "Your own operators and kernels (several: repeat the option)";
  command.add_option("--plugin", "A library built against deep500; D5_PLUGINS lists more, separated by ':'")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group(group);
  command.add_option("--source", "A C++ file, compiled now and kept in the cache")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group(group);
}

void open_plugins(const std::vector<std::string>& arguments) {
  for (const std::string& library : plugins_of_environment())
    open_and_warn({"--plugin", library, library, content_hash(file_contents(library))});
  const bool quiet = std::ranges::find(arguments, "--quiet") != arguments.end();
  for (size_t i = 0; i < arguments.size(); ++i)
    for (const std::string option : {"--plugin", "--source"}) {
      std::string file;
      if (arguments[i] == option && i + 1 < arguments.size()) file = arguments[i + 1];
      if (arguments[i].starts_with(option + "=")) file = arguments[i].substr(option.size() + 1);
      if (file.empty()) continue;
      Plugin plugin{option, file, file, content_hash(file_contents(file))};
      if (option == "--source") {
        const CompiledSource compiled = compile_source(file);
        if (compiled.seconds > 0 && !quiet) fmt::print(stderr, "compiled {} in {:.1f} s\n", file, compiled.seconds);
        plugin.library = compiled.library;
      }
      open_and_warn(plugin);
    }
}

}  // namespace d5
