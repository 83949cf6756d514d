// SPDX-License-Identifier: Apache-2.0
#include "d5/measure/environment.hpp"

#include <unistd.h>

#include "d5/core/error.hpp"
#include "d5/core/rng.hpp"
#include "d5/measure/environment_parts.hpp"
#include "d5/measure/machine_file.hpp"

namespace d5 {
namespace {

std::map<std::string, std::string> variables() {
  std::map<std::string, std::string> all;
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry;
    all[text.substr(0, text.find('='))] = text.substr(text.find('=') + 1);
  }
  return all;
}

}  // namespace

nlohmann::json capture_environment(const nlohmann::json& backends) {
  const auto file = find_machine_file();
  return {{"schema", "d5-environment/1"},
          {"cpu", cpu_environment()},
          {"memory", memory_environment()},
          {"gpus", gpu_environment()},
          {"os", os_environment()},
          {"container", detect_container("/", variables())},
          {"machine", machine_environment()},
          {"build", build_environment()},
          {"libraries", library_environment()},
          {"owner", file.empty() ? nlohmann::json::object() : read_machine_file(file)},
          {"backends", backends},
          {"now", now_environment()}};
}

std::string environment_hash(const nlohmann::json& environment) {
  nlohmann::json lasting = environment;
  lasting.erase("now");
  return fmt::format("{:016x}", stream_of(lasting.dump()));  // keys are sorted, so the text is unique
}

}  // namespace d5
