// SPDX-License-Identifier: Apache-2.0
#include "d5/core/memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>

#include "d5/core/error.hpp"
#include "d5/core/host_pages.hpp"

namespace d5 {
namespace {

// What the kernel could hand out without swapping.
size_t available_bytes() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("MemAvailable:")) return std::strtoull(line.c_str() + 13, nullptr, 10) * 1024;
  return SIZE_MAX;
}

constexpr size_t huge_page = size_t{2} << 20;
double gib(size_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

class HostMemory final : public Memory {
 public:
  std::string device() const override { return "host"; }

  void* allocate(size_t bytes) override {
    expect_available(bytes);
    const size_t alignment = bytes >= 2 * huge_page ? huge_page : alignment_bytes;
    const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    void* pointer = rounded < bytes ? nullptr : std::aligned_alloc(alignment, std::max(rounded, alignment));
    if (!pointer) throw Error("[memory] out of memory: {:.1f} GiB asked for", gib(bytes));
    wish_huge_pages(pointer, rounded);
    return pointer;
  }
  void release(void* pointer, size_t) noexcept override { std::free(pointer); }
  void upload(void* to, const void* from, size_t bytes) override { __builtin_memcpy(to, from, bytes); }
  void download(void* to, const void* from, size_t bytes) override { __builtin_memcpy(to, from, bytes); }
};

}  // namespace

void expect_available(size_t bytes) {
  constexpr size_t large = size_t{64} << 20;
  if (bytes >= large && bytes > available_bytes())
    throw Error("[memory] out of memory: {:.1f} GiB asked for, {:.1f} GiB available", gib(bytes),
                gib(available_bytes()));
}

// A stream through memory then meets a new page every 2 MiB instead of every 4 KiB.
void wish_huge_pages(void* begin, size_t bytes) {
  if (bytes >= 2 * huge_page) madvise(begin, bytes, MADV_HUGEPAGE);
}

Memory& host_memory() {
  static HostMemory memory;
  return memory;
}

}  // namespace d5
