// SPDX-License-Identifier: Apache-2.0
#include "d5/graph/memory_plan.hpp"

#include <algorithm>
#include <numeric>

#include "d5/core/memory.hpp"

namespace d5 {
namespace {

size_t rounded(size_t bytes) { return (bytes + alignment_bytes - 1) / alignment_bytes * alignment_bytes; }

bool overlap(size_t first, size_t last, const BufferLife& b) {
  return (first <= b.last && b.first <= last) ||
         std::ranges::any_of(b.more, [&](const LifeStretch& s) { return first <= s.last && s.first <= last; });
}
bool overlap(const BufferLife& a, const BufferLife& b) {
  return overlap(a.first, a.last, b) ||
         std::ranges::any_of(a.more, [&](const LifeStretch& s) { return overlap(s.first, s.last, b); });
}

// What lives at one step: ends before begins count apart, so that neighbours in time share.
size_t most_alive(std::span<const BufferLife> lives) {
  struct Event {
    size_t step;
    bool begins;
    size_t bytes;
  };
  std::vector<Event> events;
  for (const BufferLife& life : lives) {
    const auto add = [&](size_t first, size_t last) {
      events.push_back({first, true, rounded(life.bytes)});
      events.push_back({last + 1, false, rounded(life.bytes)});
    };
    add(life.first, life.last);
    for (const LifeStretch& stretch : life.more) add(stretch.first, stretch.last);
  }
  std::ranges::sort(
      events, [](const Event& a, const Event& b) { return a.step != b.step ? a.step < b.step : a.begins < b.begins; });
  size_t now = 0, most = 0;
  for (const Event& event : events) {
    now = event.begins ? now + event.bytes : now - event.bytes;
    most = std::max(most, now);
  }
  return most;
}

MemoryPlan place(std::span<const BufferLife> lives, const std::vector<size_t>& order) {
  MemoryPlan plan{.offsets = std::vector<size_t>(lives.size(), 0)};
  std::vector<size_t> placed;  // by offset
  for (const size_t i : order) {
    const size_t bytes = rounded(lives[i].bytes);
    if (bytes == 0) continue;
    size_t end = 0, best = SIZE_MAX, best_gap = SIZE_MAX;
    for (const size_t other : placed) {
      if (!overlap(lives[i], lives[other])) continue;
      const size_t begin = plan.offsets[other];
      if (begin >= end + bytes && begin - end < best_gap) {
        best = end;
        best_gap = begin - end;
      }
      end = std::max(end, begin + rounded(lives[other].bytes));
    }
    plan.offsets[i] = best == SIZE_MAX ? end : best;
    plan.bytes = std::max(plan.bytes, plan.offsets[i] + bytes);
    const auto after = std::ranges::upper_bound(placed, plan.offsets[i], {}, [&](size_t p) { return plan.offsets[p]; });
    placed.insert(after, i);
  }
  return plan;
}

}  // namespace

MemoryPlan plan_memory(std::span<const BufferLife> lives) {
  std::vector<size_t> by_size(lives.size());
  std::iota(by_size.begin(), by_size.end(), size_t{0});
  std::vector<size_t> by_time = by_size;
  std::ranges::stable_sort(by_size, std::greater<>(), [&](size_t i) { return lives[i].bytes; });
  std::ranges::stable_sort(by_time, {}, [&](size_t i) { return lives[i].first; });
  MemoryPlan large_first = place(lives, by_size), early_first = place(lives, by_time);
  MemoryPlan plan = large_first.bytes < early_first.bytes ? std::move(large_first) : std::move(early_first);
  plan.least = most_alive(lives);
  return plan;
}

}  // namespace d5
