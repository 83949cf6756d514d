// SPDX-License-Identifier: Apache-2.0
// The views of a network that d5 net can show instead of, or beside, its speed.
#pragma once

#include "d5/cli/execute.hpp"

namespace d5 {

struct NetViewFlags {
  bool validate = false, context = false;
  std::string trace;
  int top = 10;
};
void add_net_view_options(CLI::App&, NetViewFlags&);

// The recipe as these say, or as it is. UsageError where they do not go together.
int run_net_view(Recipe, RunFlags, const NetViewFlags&);

}  // namespace d5
