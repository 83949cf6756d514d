// SPDX-License-Identifier: Apache-2.0
// The memory of an executable: one allocation for all buffers of a plan. Either buffers share bytes as their lives
// allow, or each has its own, with a guard behind it that nobody may write; where guards are to be wide, each has an
// allocation of its own. Private to compile_kernels.
#pragma once

#include <functional>

#include "d5/backends/kernel_memory.hpp"

namespace d5 {

class KernelStore {
 public:
  KernelStore(const KernelBuffers&, bool guarded, int slots, const std::shared_ptr<Memory>&);

  void* at(size_t buffer, int slot) const { return buffer == none ? nullptr : places_[slot][buffer]; }
  size_t bytes() const { return bytes_; }
  std::shared_ptr<void> owner() const { return owner_; }
  // Who ran over an end of which buffer; `writers` names those who may have. Empty: nobody, or there are no guards.
  std::string overrun(const std::function<std::string(const std::string& buffer)>& writers) const;

 private:
  struct Guard {
    size_t begin = 0, bytes = 0;
    std::string after;  // the buffer that it follows
  };

  using Offsets = std::vector<std::vector<size_t>>;    // by slot, buffer
  Offsets lay_apart(const KernelBuffers&, int slots);  // sets bytes_ and guards_, too
  void allocate_each(const KernelBuffers&, int slots);

  std::vector<std::vector<char*>> places_;  // by slot, buffer
  std::shared_ptr<void> owner_;
  size_t bytes_ = 0;
  char* base_ = nullptr;                              // of the one allocation
  std::vector<Guard> guards_;                         // in it, in the order of addresses
  std::vector<std::pair<std::string, Tensor>> each_;  // with wide guards: the buffers by name
};

// Where buffers that share bytes lie; nothing is allocated.
struct SharedPlaces {
  std::vector<std::vector<size_t>> offsets;  // by slot, buffer
  size_t bytes = 0;
};
SharedPlaces share_places(const KernelBuffers&, int slots);

}  // namespace d5
