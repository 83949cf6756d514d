// SPDX-License-Identifier: Apache-2.0
// Parts of this room that need a library: each is built where CMake finds it, and otherwise off with the reason.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace d5 {

struct PartStatus {
  std::string kind, name;  // "container", "hdf5"
  bool available = false;
  std::string reason;  // why it is off; where it is on, which library it is
  std::string module;  // opened when first asked for; empty: in libd5
};
std::vector<PartStatus> part_statuses();
PartStatus part_status(std::string_view name);

// Opens the module that has this, if it is one that is not open yet. Error with the reason where the part is off; no
// effect on names that are no parts.
void open_part(std::string_view kind, std::string_view name);
// All that is registered and all parts, sorted.
std::vector<PartStatus> all_of_kind(std::string_view kind);

}  // namespace d5
