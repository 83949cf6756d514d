// SPDX-License-Identifier: Apache-2.0
// The data caches of this machine, and how to empty them of a case (`--cache cold`).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace d5 {

struct CacheLevel {
  int level;         // 1, 2, 3, ...
  std::string type;  // "data", "instruction", "unified"
  int64_t bytes;     // of one instance
  int shared_by;     // logical CPUs that share an instance
  int instances;     // in the whole machine
};
std::vector<CacheLevel> cache_levels();  // as the kernel tells; empty where it tells nothing

// Last-level cache that `threads` threads can fill: one instance each until there are no more. 32 MiB where unknown.
int64_t last_level_bytes(int threads);

// Owns a buffer of twice the last-level cache; flush() walks it on threads() threads, so that the private caches of
// every core that takes part and the shared ones hold nothing of the case. Not part of the timed region.
class CacheFlusher {
 public:
  CacheFlusher();
  void flush();
  int64_t bytes() const { return bytes_; }

 private:
  int64_t bytes_;
  std::unique_ptr<unsigned char[]> buffer_;
};

}  // namespace d5
