// SPDX-License-Identifier: Apache-2.0
#include "d5/core/far_guard.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <mutex>

namespace d5 {
namespace {

// What the handler of a signal looks at: no lock, no memory that moves.
struct Reservation {
  std::atomic<uintptr_t> begin = 0, end = 0;
};
std::array<Reservation, 256> reservations;
std::array<std::atomic<uintptr_t>, 64> stray_writes;  // addresses; 0: free
std::atomic<int> touched_pages = 0;
constexpr int most_touched_pages = 4096;
struct sigaction before_us;

std::mutex changing;  // of reservations

bool reserved(uintptr_t at) {
  return std::ranges::any_of(reservations, [at](const Reservation& r) { return r.begin <= at && at < r.end; });
}

void note(uintptr_t at) {
  for (std::atomic<uintptr_t>& place : stray_writes)
    if (uintptr_t free = 0; place.compare_exchange_strong(free, at)) return;
}

bool is_write([[maybe_unused]] void* context) {
#ifdef __x86_64__
  return static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & 2;
#else
  return true;
#endif
}

void on_fault(int, siginfo_t* info, void* context) {
  const int kept = errno;
  const auto at = reinterpret_cast<uintptr_t>(info->si_addr);
  const bool ours = info->si_code == SEGV_ACCERR && reserved(at) && touched_pages.fetch_add(1) < most_touched_pages;
  if (ours) {
    const bool writes = is_write(context);
    if (writes) note(at);
    mprotect(reinterpret_cast<void*>(at / page_bytes * page_bytes), page_bytes,
             writes ? PROT_READ | PROT_WRITE : PROT_READ);
  } else {  // the same access faults again, for whoever was there before; a signal that was sent is sent again
    sigaction(SIGSEGV, &before_us, nullptr);
    if (info->si_code <= 0) raise(SIGSEGV);
  }
  errno = kept;
}

void watch_faults() {
  struct sigaction ours = {};
  ours.sa_sigaction = on_fault;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&ours.sa_mask);
  sigaction(SIGSEGV, &ours, &before_us);
}

}  // namespace

void* reserve_pages(size_t bytes) {
  constexpr size_t huge_page = size_t{2} << 20;
  const std::scoped_lock lock(changing);
  const auto free = std::ranges::find_if(reservations, [](const Reservation& r) { return r.end == 0; });
  if (free == reservations.end()) return nullptr;
  void* const all = mmap(nullptr, bytes + huge_page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) return nullptr;
  static std::once_flag once;
  std::call_once(once, watch_faults);
  const auto first = reinterpret_cast<uintptr_t>(all), begin = (first + huge_page - 1) / huge_page * huge_page;
  if (begin > first) munmap(all, begin - first);
  if (const size_t rest = first + huge_page - begin; rest > 0) munmap(reinterpret_cast<void*>(begin + bytes), rest);
  free->begin = begin;
  free->end = begin + bytes;
  return reinterpret_cast<void*>(begin);
}

bool is_reserved(const void* pointer) { return reserved(reinterpret_cast<uintptr_t>(pointer)); }

bool open_pages(void* begin, size_t bytes) { return mprotect(begin, bytes, PROT_READ | PROT_WRITE) == 0; }

void release_pages(void* begin, size_t bytes) noexcept {
  const auto from = reinterpret_cast<uintptr_t>(begin);
  const std::scoped_lock lock(changing);
  for (Reservation& r : reservations)
    if (r.begin == from) {
      r.end = 0;
      r.begin = 0;
    }
  for (std::atomic<uintptr_t>& place : stray_writes)
    if (const uintptr_t at = place; from <= at && at < from + bytes) place = 0;
  munmap(begin, bytes);
}

Damage far_damage(const void* begin, size_t bytes) {
  const auto from = reinterpret_cast<uintptr_t>(begin);
  Damage damage{bytes, bytes};
  for (const std::atomic<uintptr_t>& place : stray_writes) {
    const uintptr_t at = place;
    if (at < from || at >= from + bytes) continue;
    const bool is_first = damage.first == bytes;
    damage.first = is_first ? at - from : std::min(damage.first, at - from);
    damage.last = is_first ? at - from : std::max(damage.last, at - from);
  }
  return damage;
}

}  // namespace d5
