// SPDX-License-Identifier: Apache-2.0
// Memory that an executable may take (CompileOptions::memory_limit), enforced where it is allocated.
#pragma once

#include <atomic>
#include <string>

#include "d5/core/error.hpp"
#include "d5/core/memory.hpp"

namespace d5 {

class OverLimit : public Error {
 public:
  OverLimit(const std::string& owner, size_t needed, size_t limit);
  size_t needed() const { return needed_; }  // at least: who asked may have wanted more later
  size_t limit() const { return limit_; }

 private:
  size_t needed_, limit_;
};

// Host memory of which no more than `limit` bytes are out at any time; 0: no limit.
class LimitedMemory final : public Memory {
 public:
  LimitedMemory(std::string owner, size_t limit) : owner_(std::move(owner)), limit_(limit) {}
  std::string device() const override { return host_memory().device(); }
  void* allocate(size_t bytes) override;  // OverLimit
  void release(void* pointer, size_t bytes) noexcept override;
  void upload(void* to, const void* from, size_t bytes) override { host_memory().upload(to, from, bytes); }
  void download(void* to, const void* from, size_t bytes) override { host_memory().download(to, from, bytes); }

 private:
  std::string owner_;
  size_t limit_;
  std::atomic<size_t> used_ = 0;
};

// A buffer that keeps its memory alive.
std::shared_ptr<Buffer> make_buffer(const std::shared_ptr<Memory>&, size_t bytes);

}  // namespace d5
