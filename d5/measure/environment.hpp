// SPDX-License-Identifier: Apache-2.0
// Where and with what a result was measured: one JSON object, written once per run.
//   cpu, memory, gpus, os, container, machine (hypervisor, cloud), build, libraries, owner (machine.toml), backends,
//   now
// What a machine does not tell is null or left out, never guessed. No host name.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace d5 {

// `backends`: what each backend says of itself (version, kernels it chose, disk_footprint), by name.
nlohmann::json capture_environment(const nlohmann::json& backends = nlohmann::json::object());

// 16 hexadecimal digits over everything but "now", which holds what changes from second to second.
std::string environment_hash(const nlohmann::json& environment);

}  // namespace d5
