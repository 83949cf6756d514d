// SPDX-License-Identifier: Apache-2.0
#include "d5/core/guard.hpp"

#include <fmt/core.h>

#include "d5/core/far_guard.hpp"
#include "d5/core/host_pages.hpp"

namespace d5 {
namespace {

// No byte is that of its neighbour: neither a constant nor a copied row looks like it.
constexpr unsigned char pattern(size_t i) { return static_cast<unsigned char>(0xb5 + 37 * i); }

thread_local bool wide_wanted = false;

// [a guard] the bytes [a guard, to the end of a page]; wide ones between pages that nobody may write, where there is
// address space for them.
class GuardedMemory final : public Memory {
 public:
  GuardedMemory(size_t width, size_t far) : width_(width), far_(far) {}
  std::string device() const override { return "host"; }
  void* allocate(size_t bytes) override {
    char* begin = nullptr;
    if (far_ > 0) {
      expect_available(opened(bytes));
      if (auto* const base = static_cast<char*>(reserve_pages(far_ + opened(bytes) + far_))) {
        begin = base + far_;
        wish_huge_pages(begin, opened(bytes));
        if (!open_pages(begin, opened(bytes))) {
          release_pages(base, far_ + opened(bytes) + far_);
          begin = nullptr;
        }
      }
    }
    if (!begin) begin = static_cast<char*>(host_memory().allocate(opened(bytes)));
    set_guard(begin, width_);
    set_guard(begin + width_ + bytes, behind(bytes));
    return begin + width_;
  }
  void release(void* pointer, size_t bytes) noexcept override {
    char* const begin = static_cast<char*>(pointer) - width_;
    if (far_ > 0 && is_reserved(begin))
      release_pages(begin - far_, far_ + opened(bytes) + far_);
    else
      host_memory().release(begin, opened(bytes));
  }
  void upload(void* to, const void* from, size_t bytes) override { host_memory().upload(to, from, bytes); }
  void download(void* to, const void* from, size_t bytes) override { host_memory().download(to, from, bytes); }

  std::string overrun(const char* data, size_t bytes) const {
    if (const Damage d = guard_damage(data + bytes, behind(bytes)); d.first < behind(bytes))
      return fmt::format("byte {} beyond the end", d.first + 1);
    if (const Damage d = guard_damage(data - width_, width_); d.first < width_)
      return fmt::format("byte {} before the begin", width_ - d.last);
    if (far_ == 0) return {};
    if (const Damage d = far_damage(data + bytes + behind(bytes), far_); d.first < far_)
      return fmt::format("byte {} beyond the end", behind(bytes) + d.first + 1);
    if (const Damage d = far_damage(data - width_ - far_, far_); d.first < far_)
      return fmt::format("byte {} before the begin", width_ + far_ - d.last);
    return {};
  }

 private:
  size_t opened(size_t bytes) const {
    const size_t all = width_ + bytes + width_;
    return far_ > 0 ? whole_pages(all) : all;
  }
  size_t behind(size_t bytes) const { return opened(bytes) - width_ - bytes; }

  size_t width_, far_;
};

GuardedMemory& narrow() {
  static GuardedMemory memory(guard_bytes, 0);
  return memory;
}
GuardedMemory& wide() {
  static GuardedMemory memory(wide_guard_bytes, far_guard_bytes);
  return memory;
}

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

Memory& guarded_memory() { return narrow(); }
Memory& widely_guarded_memory() { return wide(); }

WideGuards::WideGuards() { wide_wanted = true; }
WideGuards::~WideGuards() { wide_wanted = false; }
bool wide_guards_wanted() { return wide_wanted; }

std::string overrun(const Tensor& tensor) {
  if (!tensor.present()) return {};
  for (const GuardedMemory* memory : {&narrow(), &wide()})
    if (&tensor.memory() == memory) return memory->overrun(static_cast<const char*>(tensor.data()), tensor.bytes());
  return {};
}

}  // namespace d5
