// SPDX-License-Identifier: Apache-2.0
// Where bytes live. The host is built in; a backend with a device brings its own Memory. Copies between a device and
// the host are complete when the call returns.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace d5 {

inline constexpr size_t alignment_bytes = 64;

class Memory {
 public:
  virtual ~Memory() = default;
  virtual std::string device() const = 0;    // "host", "cuda:0"
  virtual void* allocate(size_t bytes) = 0;  // aligned to 64 bytes; Error "out of memory" with the size
  virtual void release(void* pointer, size_t bytes) noexcept = 0;
  virtual void upload(void* to, const void* from_host, size_t bytes) = 0;
  virtual void download(void* to_host, const void* from, size_t bytes) = 0;
  bool is_host() const { return device() == "host"; }
};

Memory& host_memory();

// Bytes owned for as long as someone holds the pointer; several tensors may look into one buffer.
class Buffer {
 public:
  Buffer(Memory& memory, size_t bytes) : memory_(memory), bytes_(bytes), data_(memory.allocate(bytes)) {}
  ~Buffer() { memory_.release(data_, bytes_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  Memory& memory() const { return memory_; }

 private:
  Memory& memory_;
  size_t bytes_;
  void* data_;
};

}  // namespace d5
