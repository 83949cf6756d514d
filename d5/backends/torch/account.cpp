// SPDX-License-Identifier: Apache-2.0
#include "d5/backends/torch/account.hpp"

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <mutex>

#include "d5/backends/memory_limit.hpp"

namespace d5::libtorch {
namespace {

constexpr long unlimited = std::numeric_limits<long>::max();

std::atomic<long> live = 0, most = 0;
std::atomic<long> allowed = unlimited;  // of live
Account* current = nullptr;
long current_before = 0;

class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* const data = c10::alloc_cpu(bytes);
    const long taken = data ? static_cast<long>(malloc_usable_size(data)) : 0;
    const long now = live += taken;
    for (long seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
    }
    if (now > allowed) {
      release(data);
      throw OverLimit(current->owner, current->held + static_cast<size_t>(now - current_before), current->limit);
    }
    return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }

 private:
  static void release(void* data) {
    if (!data) return;
    live -= static_cast<long>(malloc_usable_size(data));
    c10::free_cpu(data);
  }
};

}  // namespace

void count_allocations() {
  static CountingAllocator allocator;
  static std::once_flag once;
  std::call_once(once, [] { c10::SetCPUAllocator(&allocator, /*priority=*/100); });
}

Accounting::Accounting(Account& account) : account_(account), before_(live) {
  current = &account;
  current_before = before_;
  most = before_;
  if (account.limit > 0)
    allowed = before_ + static_cast<long>(account.limit) - static_cast<long>(std::min(account.held, account.limit));
}

Accounting::~Accounting() {
  allowed = unlimited;
  current = nullptr;
  account_.peak = std::max(account_.peak, account_.held + static_cast<size_t>(most - before_));
  const long grown = live - before_;
  account_.held = grown < 0 && static_cast<size_t>(-grown) > account_.held
                      ? 0
                      : static_cast<size_t>(static_cast<long>(account_.held) + grown);
}

}  // namespace d5::libtorch
