// SPDX-License-Identifier: Apache-2.0
#include "d5/core/memory.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>

#include "d5/core/error.hpp"

namespace d5 {
namespace {

// What the kernel could hand out without swapping; Linux otherwise promises more than there is and kills later.
size_t available_bytes() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("MemAvailable:")) return std::strtoull(line.c_str() + 13, nullptr, 10) * 1024;
  return SIZE_MAX;
}

class HostMemory final : public Memory {
 public:
  std::string device() const override { return "host"; }

  void* allocate(size_t bytes) override {
    constexpr size_t large = size_t{64} << 20;
    if (bytes >= large && bytes > available_bytes())
      throw Error("[memory] out of memory: {:.1f} GiB asked for, {:.1f} GiB available", gib(bytes),
                  gib(available_bytes()));
    const size_t rounded = (bytes + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
    void* pointer = rounded < bytes ? nullptr : std::aligned_alloc(alignment_bytes, std::max(rounded, alignment_bytes));
    if (!pointer) throw Error("[memory] out of memory: {:.1f} GiB asked for", gib(bytes));
    return pointer;
  }
  void release(void* pointer, size_t) noexcept override { std::free(pointer); }
  void upload(void* to, const void* from, size_t bytes) override { __builtin_memcpy(to, from, bytes); }
  void download(void* to, const void* from, size_t bytes) override { __builtin_memcpy(to, from, bytes); }

 private:
  static double gib(size_t bytes) { return static_cast<double>(bytes) / (1 << 30); }
};

}  // namespace

Memory& host_memory() {
  static HostMemory memory;
  return memory;
}

}  // namespace d5
