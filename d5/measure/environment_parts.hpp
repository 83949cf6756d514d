// SPDX-License-Identifier: Apache-2.0
// The parts of the environment, one source file each. `root` is "/"; tests give a folder of their own.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace d5 {

nlohmann::json cpu_environment();
nlohmann::json memory_environment();
nlohmann::json os_environment();
nlohmann::json build_environment();
nlohmann::json library_environment();
nlohmann::json machine_environment();  // hypervisor, cloud, DMI names
nlohmann::json now_environment();      // load, current MHz, free memory, time of day
nlohmann::json gpu_environment();      // one object a device; empty without NVIDIA's management library
nlohmann::json gpu_now();              // clocks, power state, power, temperature, used memory

std::string cpu_model();  // "unknown" where the kernel does not say

// "docker", "podman", "kubernetes", "lxc", "systemd-nspawn", "apptainer", or "none".
std::string detect_container(const std::filesystem::path& root, const std::map<std::string, std::string>& variables);
// The cloud behind the names that the firmware gives (DMI), or empty.
std::string detect_cloud(const std::map<std::string, std::string>& dmi);

}  // namespace d5
