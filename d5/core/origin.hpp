// SPDX-License-Identifier: Apache-2.0
// Who registered what: names of plugins, and names that they took over from others.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "d5/core/registry.hpp"

namespace d5 {

// It came with a plugin: nobody vouches for it, and it may crash.
template <class Kind>
bool is_users(std::string_view name) {
  return !registry_origin(Kind::kind, name).empty();
}

// A name that was registered again: the later entry is what it means from then on. In the order in which it happened.
struct Replacement {
  std::string kind, name;
  std::string before, after;  // who registered it, as registry_origin() says
};
std::vector<Replacement> replacements();

}  // namespace d5
