// SPDX-License-Identifier: Apache-2.0
#include "d5/cli/plugins.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "d5/core/error.hpp"
#include "d5/core/plugins.hpp"
#include "d5/runner/source.hpp"

namespace d5 {
namespace {

std::vector<std::string>& problems() {
  static std::vector<std::string> all;
  return all;
}

void open_and_warn(const Plugin& plugin) {
  for (const Plugin& other : opened_plugins())
    if (other.given == plugin.given) return;
  const size_t known = takeovers().size();
  if (open_plugin(plugin) == 0)
    fmt::print(stderr, "warning: [plugin] {} registers nothing; it ends with a line like D5_REGISTER(operators, ...)\n",
               plugin.given);
  const std::vector<Takeover> all = takeovers();
  for (size_t i = known; i < all.size(); ++i) fmt::print(stderr, "warning: [plugin] {}\n", all[i].text);
}

void open_one(const std::string& option, const std::string& file, bool quiet) {
  Plugin plugin{option, file, file, content_hash(file_contents(file))};
  if (option == "--source") {
    const CompiledSource compiled = compile_source(file);
    if (compiled.seconds > 0 && !quiet) fmt::print(stderr, "compiled {} in {:.1f} s\n", file, compiled.seconds);
    plugin.library = compiled.library;
  }
  open_and_warn(plugin);
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

const std::vector<std::string>& plugins_not_opened() { return problems(); }

void open_plugins(const std::vector<std::string>& arguments) {
  const bool quiet = std::ranges::find(arguments, "--quiet") != arguments.end();
  const auto open = [&](const std::string& option, const std::string& file) {
    try {
      open_one(option, file, quiet);
    } catch (const Error& error) {
      fmt::print(stderr, "d5: {}\n", error.what());
      problems().push_back(error.what());
    }
  };
  for (const std::string& library : plugins_of_environment()) open("--plugin", library);
  for (size_t i = 0; i < arguments.size(); ++i)
    for (const std::string option : {"--plugin", "--source"}) {
      std::string file;
      if (arguments[i] == option && i + 1 < arguments.size()) file = arguments[i + 1];
      if (arguments[i].starts_with(option + "=")) file = arguments[i].substr(option.size() + 1);
      if (!file.empty()) open(option, file);
    }
  tell_children();
}

}  // namespace d5
