// SPDX-License-Identifier: Apache-2.0
// machine.toml: facts that only the owner of a machine knows. All are optional:
//   name = "node17"   price_per_hour = 1.20   currency = "EUR"   year = 2023   tdp_watts = 350   note = "..."
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

namespace d5 {

// $D5_MACHINE (an Error where it names no file), ./machine.toml, ~/.config/d5/machine.toml; empty where none is there.
std::filesystem::path find_machine_file();

// UsageError with file:line:column for broken TOML, an unknown key (with the nearest legal one) or a wrong value.
nlohmann::json read_machine_file(const std::filesystem::path&);

}  // namespace d5
