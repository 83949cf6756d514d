// SPDX-License-Identifier: Apache-2.0
#include "d5/backends/memory_limit.hpp"

namespace d5 {
namespace {
double mebibytes(size_t bytes) { return static_cast<double>(bytes) / (1 << 20); }
}  // namespace

OverLimit::OverLimit(const std::string& owner, size_t needed, size_t limit)
    : Error("[memory] {} needs {:.2f} MiB for a step, the limit is {:.2f} MiB", owner, mebibytes(needed),
            mebibytes(limit)),
      needed_(needed),
      limit_(limit) {}

void* LimitedMemory::allocate(size_t bytes) {
  const size_t used = used_ += bytes;
  if (limit_ > 0 && used > limit_) {
    used_ -= bytes;
    throw OverLimit(owner_, used, limit_);
  }
  try {
    return host_memory().allocate(bytes);
  } catch (const Error&) {
    used_ -= bytes;
    throw;
  }
}

void LimitedMemory::release(void* pointer, size_t bytes) noexcept {
  host_memory().release(pointer, bytes);
  used_ -= bytes;
}

std::shared_ptr<Buffer> make_buffer(const std::shared_ptr<Memory>& memory, size_t bytes) {
  return {new Buffer(*memory, bytes), [memory](Buffer* buffer) { delete buffer; }};
}

}  // namespace d5
