// SPDX-License-Identifier: Apache-2.0
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

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

// The process and its descendants. Without the kernel's list of children (CONFIG_PROC_CHILDREN) it is alone.
std::vector<pid_t> family(pid_t pid) {
  std::vector<pid_t> all{pid};
  for (size_t i = 0; i < all.size(); ++i) {
    std::error_code gone;
    for (const auto& task : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", all[i]), gone)) {
      std::ifstream children(task.path() / "children");
      for (pid_t child; children >> child;) all.push_back(child);
    }
  }
  return all;
}

size_t number_in(const std::string& path, size_t missing) {
  size_t value;
  return std::ifstream(path) >> value ? value : missing;  // "max" is no number
}

}  // namespace

size_t resident_bytes(pid_t pid) {
  size_t pages = 0;
  for (const pid_t one : family(pid)) {
    size_t total = 0, resident = 0;
    std::ifstream(fmt::format("/proc/{}/statm", one)) >> total >> resident;
    pages += resident;
  }
  return pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

size_t peak_resident_bytes(pid_t pid) {
  size_t kibibytes = 0;
  for (const pid_t one : family(pid)) kibibytes += number_after(fmt::format("/proc/{}/status", one), "VmHWM:", 0);
  return kibibytes * 1024;
}

double process_cpu_seconds(pid_t pid) {
  double seconds = 0;
  for (const pid_t one : family(pid)) {
    clockid_t clock;
    timespec time{};
    if (clock_getcpuclockid(one, &clock) == 0 && clock_gettime(clock, &time) == 0)
      seconds += static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }
  return seconds;
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
