// SPDX-License-Identifier: Apache-2.0
#include "d5/core/guard.hpp"

#include <fmt/core.h>

namespace d5 {
namespace {

// No byte is that of its neighbour: neither a constant nor a copied row looks like it.
constexpr unsigned char pattern(size_t i) { return static_cast<unsigned char>(0xb5 + 37 * i); }

class GuardedMemory final : public Memory {
 public:
  std::string device() const override { return "host"; }
  void* allocate(size_t bytes) override {
    char* base = static_cast<char*>(host_memory().allocate(bytes + 2 * guard_bytes));
    set_guard(base, guard_bytes);
    set_guard(base + guard_bytes + bytes, guard_bytes);
    return base + guard_bytes;
  }
  void release(void* pointer, size_t bytes) noexcept override {
    host_memory().release(static_cast<char*>(pointer) - guard_bytes, bytes + 2 * guard_bytes);
  }
  void upload(void* to, const void* from, size_t bytes) override { host_memory().upload(to, from, bytes); }
  void download(void* to, const void* from, size_t bytes) override { host_memory().download(to, from, bytes); }
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
  static GuardedMemory memory;
  return memory;
}

std::string overrun(const Tensor& tensor) {
  if (!tensor.present() || &tensor.memory() != &guarded_memory()) return {};
  const char* begin = static_cast<const char*>(tensor.data());
  if (const Damage d = guard_damage(begin + tensor.bytes(), guard_bytes); d.first < guard_bytes)
    return fmt::format("byte {} beyond the end", d.first + 1);
  if (const Damage d = guard_damage(begin - guard_bytes, guard_bytes); d.first < guard_bytes)
    return fmt::format("byte {} before the begin", guard_bytes - d.last);
  return {};
}

}  // namespace d5
