// SPDX-License-Identifier: Apache-2.0
#include "d5/measure/resident_memory.hpp"

#include <malloc.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace d5 {
namespace {

// "VmHWM:      1234 kB" of /proc/self/status.
std::optional<int64_t> status_bytes(const std::string& key) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key + ":")) continue;
    std::istringstream words(line.substr(key.size() + 1));
    int64_t kibibytes = 0;
    if (words >> kibibytes) return kibibytes * 1024;
  }
  return {};
}

}  // namespace

ResidentPeak::ResidentPeak() {
  malloc_trim(0);
  std::ofstream forget("/proc/self/clear_refs");
  forget << 5 << std::flush;  // the peak so far is forgotten
  const auto now = status_bytes("VmRSS");
  if (!forget)
    reason_ = "/proc/self/clear_refs cannot be written, so the peak of earlier work cannot be forgotten";
  else if (!now)
    reason_ = "/proc/self/status does not tell the resident set";
  begin_ = now.value_or(0);
}

std::optional<int64_t> ResidentPeak::growth_bytes() const {
  const auto peak = status_bytes("VmHWM");
  if (!reason_.empty() || !peak) return {};
  return std::max<int64_t>(0, *peak - begin_);
}

}  // namespace d5
