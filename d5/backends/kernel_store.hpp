// SPDX-License-Identifier: Apache-2.0
// The memory of an executable: one allocation for all buffers of a plan. Either buffers share bytes as their lives
// allow, or each has its own, with a guard behind it that nobody may write. Private to compile_kernels.
#pragma once

#include <functional>

#include "d5/backends/kernel_memory.hpp"

namespace d5 {

class KernelStore {
 public:
  KernelStore(const KernelBuffers&, bool guarded, int slots, const std::shared_ptr<Memory>&);

  void* at(size_t buffer, int slot) const { return buffer == none ? nullptr : base() + offsets_[slot][buffer]; }
  size_t bytes() const { return memory_->bytes(); }
  std::shared_ptr<Buffer> owner() const { return memory_; }
  // Who ran over an end of which buffer; `writers` names those who may have. Empty: nobody, or there are no guards.
  std::string overrun(const std::function<std::string(const std::string& buffer)>& writers) const;

 private:
  struct Guard {
    size_t begin = 0, bytes = 0;
    std::string after;  // the buffer that it follows
  };

  size_t lay_apart(const KernelBuffers&, int slots);
  char* base() const { return static_cast<char*>(memory_->data()); }

  std::vector<std::vector<size_t>> offsets_;  // by slot, buffer
  std::vector<Guard> guards_;                 // in the order of addresses
  std::shared_ptr<Buffer> memory_;
};

// Where buffers that share bytes lie; nothing is allocated.
struct SharedPlaces {
  std::vector<std::vector<size_t>> offsets;  // by slot, buffer
  size_t bytes = 0;
};
SharedPlaces share_places(const KernelBuffers&, int slots);

}  // namespace d5
