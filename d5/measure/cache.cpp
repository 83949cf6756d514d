// SPDX-License-Identifier: Apache-2.0
#include "d5/measure/cache.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <tuple>

#include "d5/core/parallel.hpp"
#include "d5/measure/kernel_files.hpp"

namespace d5 {
namespace {

constexpr int64_t unknown_last_level = 32 << 20;
constexpr int64_t line_bytes = 64;

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace

std::vector<CacheLevel> cache_levels() {
  namespace fs = std::filesystem;
  // An instance is known by the CPUs that share it; every one of them lists it.
  std::map<std::tuple<int, std::string, int64_t, int>, std::set<std::string>> found;
  const fs::path folder = "/sys/devices/system/cpu";
  std::error_code ignored;
  for (const auto& cpu : fs::directory_iterator(folder, ignored)) {
    const std::string name = cpu.path().filename().string();
    if (name.rfind("cpu", 0) != 0 || name.find_first_not_of("0123456789", 3) != std::string::npos) continue;
    for (int index = 0; index < 8; ++index) {
      const fs::path cache = cpu.path() / "cache" / ("index" + std::to_string(index));
      const int64_t bytes = parse_size(first_line(cache / "size"));
      if (bytes <= 0) continue;
      const std::string shared = first_line(cache / "shared_cpu_list");
      found[{static_cast<int>(parse_size(first_line(cache / "level"))), lower(first_line(cache / "type")), bytes,
             std::max(count_cpus(shared), 1)}]
          .insert(shared);
    }
  }
  std::vector<CacheLevel> levels;
  for (const auto& [cache, shared] : found) {
    const auto& [level, type, bytes, shared_by] = cache;
    levels.push_back({level, type, bytes, shared_by, static_cast<int>(shared.size())});
  }
  return levels;
}

int64_t last_level_bytes(int threads) {
  static const std::vector<CacheLevel> levels = cache_levels();
  if (levels.empty()) return unknown_last_level;
  const int last =
      std::max_element(levels.begin(), levels.end(), [](auto& a, auto& b) { return a.level < b.level; })->level;
  int64_t largest = 0;
  int instances = 0;
  for (const CacheLevel& c : levels)
    if (c.level == last && c.type != "instruction") largest = std::max(largest, c.bytes), instances += c.instances;
  return largest * std::clamp(threads, 1, std::max(instances, 1));
}

CacheFlusher::CacheFlusher()
    : bytes_(2 * last_level_bytes(threads())), buffer_(new unsigned char[static_cast<size_t>(bytes_)]) {
  flush();  // touches the pages, so that the first flush of a case is like every other
}

void CacheFlusher::flush() {
  // A written line must be owned, so it also leaves the caches of the other cores.
  parallel_for(bytes_ / line_bytes, 1, [this](int64_t first, int64_t last) {
    volatile unsigned char* line = buffer_.get();
    for (int64_t i = first; i < last; ++i) line[i * line_bytes] = static_cast<unsigned char>(i);
  });
}

}  // namespace d5
