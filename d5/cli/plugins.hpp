// SPDX-License-Identifier: Apache-2.0
// --plugin LIBRARY and --source FILE: operators, kernels and all else that can be named, from outside the tree.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace d5 {

void add_plugin_options(CLI::App& command);

// What they name decides which options and names exist, so it is opened before the command line is read: first what
// D5_PLUGINS lists, then these. What does not load or compile is told, and the command goes on with what there is; it
// does not end with 0.
void open_plugins(const std::vector<std::string>& arguments);
const std::vector<std::string>& plugins_not_opened();  // why, one each

}  // namespace d5
