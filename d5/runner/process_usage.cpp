// SPDX-License-Identifier: Apache-2.0
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

#include <fmt/core.h>

#include "d5/runner/process.hpp"

namespace d5 {
namespace {

// The number behind "key" in a file of "key value" lines; `missing` where there is none.
size_t number_after(const std::string& path, const std::string& key, size_t missing) {
  std::ifstream file(path);
  for (std::string word; file >> word;)
    if (size_t value; word == key && file >> value) return value;
  return missing;
}

size_t number_in(const std::string& path, size_t missing) {
  size_t value;
  return std::ifstream(path) >> value ? value : missing;  // "max" is no number
}

}  // namespace

size_t resident_bytes(pid_t pid) {
  size_t total = 0, resident = 0;
  std::ifstream(fmt::format("/proc/{}/statm", pid)) >> total >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

size_t peak_resident_bytes(pid_t pid) { return number_after(fmt::format("/proc/{}/status", pid), "VmHWM:", 0) * 1024; }

double process_cpu_seconds(pid_t pid) {
  clockid_t clock;
  timespec time{};
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

size_t available_memory_bytes() {
  constexpr size_t unlimited = std::numeric_limits<size_t>::max();
  size_t available = number_after("/proc/meminfo", "MemAvailable:", unlimited / 1024) * 1024;
  const std::string group = "/sys/fs/cgroup/";  // a container sees its own group at the root
  const size_t limit = number_in(group + "memory.max", unlimited);
  if (limit != unlimited) {
    const size_t used = number_in(group + "memory.current", 0),
                 cached = number_after(group + "memory.stat", "inactive_file", 0);
    const size_t taken = used > cached ? used - cached : 0;
    available = std::min(available, limit > taken ? limit - taken : 0);
  }
  return available;
}

}  // namespace d5
