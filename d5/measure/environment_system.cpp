// SPDX-License-Identifier: Apache-2.0
// Memory, the operating system, and what changes from second to second.
#include <sys/utsname.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>

#include "d5/measure/environment_parts.hpp"
#include "d5/measure/kernel_files.hpp"

namespace d5 {
namespace {

using nlohmann::json;

// "always [madvise] never" is madvise.
std::string chosen_of(const std::string& line) {
  const auto first = line.find('['), last = line.find(']');
  return first == std::string::npos || last < first ? line : line.substr(first + 1, last - first - 1);
}

json text_or_null(const std::string& text) { return text.empty() ? json() : json(text); }

// The memory limit of the control group, version 2 or 1; null where there is none.
json group_limit() {
  for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    const int64_t bytes = parse_size(first_line(path));
    if (bytes > 0 && bytes < (int64_t{1} << 60)) return bytes;
  }
  return nullptr;
}

std::string unquoted(std::string text) {
  std::erase(text, '"');
  return text;
}

}  // namespace

json memory_environment() {
  return {{"total_bytes", parse_size(field("/proc/meminfo", "MemTotal"))},
          {"swap_bytes", parse_size(field("/proc/meminfo", "SwapTotal"))},
          {"page_bytes", sysconf(_SC_PAGESIZE)},
          {"huge_pages", text_or_null(chosen_of(first_line("/sys/kernel/mm/transparent_hugepage/enabled")))},
          {"group_limit_bytes", group_limit()}};
}

json os_environment() {
  utsname system{};
  uname(&system);
  return {
      {"system", system.sysname},
      {"kernel", system.release},
      {"kernel_version", system.version},
      {"distribution", text_or_null(unquoted(field("/etc/os-release", "PRETTY_NAME")))},
      {"clock_source", text_or_null(first_line("/sys/devices/system/clocksource/clocksource0/current_clocksource"))},
      {"address_randomisation", text_or_null(first_line("/proc/sys/kernel/randomize_va_space"))}};
}

json now_environment() {
  double load[3] = {};
  const int known = getloadavg(load, 3);
  const std::string mhz = field("/proc/cpuinfo", "cpu MHz");
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch());
  return {{"unix_seconds", seconds.count()},
          {"load", known == 3 ? json{load[0], load[1], load[2]} : json()},
          {"mhz", mhz.empty() ? json() : json(std::strtod(mhz.c_str(), nullptr))},
          {"available_bytes", parse_size(field("/proc/meminfo", "MemAvailable"))},
          {"gpus", gpu_now()}};
}

}  // namespace d5
