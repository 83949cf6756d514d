// SPDX-License-Identifier: Apache-2.0
#include "d5/core/guard.hpp"

#include <fmt/core.h>

namespace d5 {
namespace {

// No byte is that of its neighbour: neither a constant nor a copied row looks like it.
constexpr unsigned char pattern(size_t i) { return static_cast<unsigned char>(0xb5 + 37 * i); }

thread_local size_t between_buffers = guard_bytes;

class GuardedMemory final : public Memory {
 public:
  explicit GuardedMemory(size_t width) : width_(width) {}
  std::string device() const override { return "host"; }
  void* allocate(size_t bytes) override {
    char* base = static_cast<char*>(host_memory().allocate(bytes + 2 * width_));
    set_guard(base, width_);
    set_guard(base + width_ + bytes, width_);
    return base + width_;
  }
  void release(void* pointer, size_t bytes) noexcept override {
    host_memory().release(static_cast<char*>(pointer) - width_, bytes + 2 * width_);
  }
  void upload(void* to, const void* from, size_t bytes) override { host_memory().upload(to, from, bytes); }
  void download(void* to, const void* from, size_t bytes) override { host_memory().download(to, from, bytes); }

 private:
  size_t width_;
};

}  // namespace

void set_guard(void* begin, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) static_cast<unsigned char*>(begin)[i] = pattern(i);
}

Damage guard_damage(const void* begin, size_t bytes) {
  const auto* at = static_cast<const unsigned char*>(begin);
  Damage damage{bytes, bytes};
  for (size_t i = 0; i < bytes; ++i) {
    if (at[i] == pattern(i)) continue;
    if (damage.first == bytes) damage.first = i;
    damage.last = i;
  }
  return damage;
}

Memory& guarded_memory() {
  static GuardedMemory memory(guard_bytes);
  return memory;
}

Memory& widely_guarded_memory() {
  static GuardedMemory memory(wide_guard_bytes);
  return memory;
}

WideGuards::WideGuards() { between_buffers = wide_guard_bytes; }
WideGuards::~WideGuards() { between_buffers = guard_bytes; }
size_t guard_between_buffers() { return between_buffers; }

std::string overrun(const Tensor& tensor) {
  if (!tensor.present()) return {};
  const bool wide = &tensor.memory() == &widely_guarded_memory();
  if (!wide && &tensor.memory() != &guarded_memory()) return {};
  const size_t width = wide ? wide_guard_bytes : guard_bytes;
  const char* begin = static_cast<const char*>(tensor.data());
  if (const Damage d = guard_damage(begin + tensor.bytes(), width); d.first < width)
    return fmt::format("byte {} beyond the end", d.first + 1);
  if (const Damage d = guard_damage(begin - width, width); d.first < width)
    return fmt::format("byte {} before the begin", width - d.last);
  return {};
}

}  // namespace d5
