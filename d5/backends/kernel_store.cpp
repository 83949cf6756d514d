// SPDX-License-Identifier: Apache-2.0
#include "d5/backends/kernel_store.hpp"

#include <algorithm>
#include <cstring>

#include "d5/backends/memory_limit.hpp"
#include "d5/core/guard.hpp"

namespace d5 {
namespace {
size_t rounded(size_t bytes) { return (bytes + alignment_bytes - 1) / alignment_bytes * alignment_bytes; }

// Streams through tensors that lie almost exactly a power of two apart hinder each other (a Zen 4 predicts the way of
// the first cache by a hash of the address). Seen for a product of two tensors of 256 MiB, GB/s by what lies between
// them: 256 bytes 24, 2048 31, 65536 41, 66880 42; and with 66880 oneDNN's 1x1 convolutions took 4 % longer than with
// 65536.
constexpr size_t large_bytes = 4 << 20, large_gap_bytes = 65536;
size_t gap(size_t bytes) { return bytes < large_bytes ? 0 : large_gap_bytes; }
}  // namespace

KernelStore::KernelStore(const KernelBuffers& plan, bool guarded, int slots, const std::shared_ptr<Memory>& memory) {
  places_.assign(slots, std::vector<char*>(plan.buffers.size(), nullptr));
  if (guarded && wide_guards_wanted()) {
    allocate_each(plan, slots);
    return;
  }
  Offsets offsets;
  if (guarded) {
    offsets = lay_apart(plan, slots);
  } else {
    SharedPlaces shared = share_places(plan, slots);
    offsets = std::move(shared.offsets);
    bytes_ = shared.bytes;
  }
  const std::shared_ptr<Buffer> all = make_buffer(memory, bytes_);
  owner_ = all;
  base_ = static_cast<char*>(all->data());
  std::memset(base_, 0, bytes_);  // touched once here; padding of native layouts must be zero
  for (size_t slot = 0; slot < places_.size(); ++slot)
    for (size_t i = 0; i < plan.buffers.size(); ++i) places_[slot][i] = base_ + offsets[slot][i];
  for (const Guard& guard : guards_) set_guard(base_ + guard.begin, guard.bytes);
}

void KernelStore::allocate_each(const KernelBuffers& plan, int slots) {
  for (size_t i = 0; i < plan.buffers.size(); ++i)
    for (size_t slot = 0; slot < static_cast<size_t>(slots); ++slot) {
      if (plan.buffers[i].fixed && slot > 0) {
        places_[slot][i] = places_[0][i];
        continue;
      }
      const auto bytes = static_cast<Index>(plan.buffers[i].life.bytes);
      each_.emplace_back(plan.buffers[i].name, Tensor(DType::u8, {bytes}, widely_guarded_memory()));
      each_.back().second.fill_bytes(0);
      places_[slot][i] = static_cast<char*>(each_.back().second.data());
      bytes_ += plan.buffers[i].life.bytes;
    }
  owner_ = std::make_shared<std::vector<std::pair<std::string, Tensor>>>(each_);
}

KernelStore::Offsets KernelStore::lay_apart(const KernelBuffers& plan, int slots) {
  Offsets offsets(slots, std::vector<size_t>(plan.buffers.size(), 0));
  size_t& end = bytes_;
  end = guard_bytes;
  guards_.push_back({0, end, ""});
  for (size_t i = 0; i < plan.buffers.size(); ++i)
    for (int slot = 0; slot < slots; ++slot) {
      if (plan.buffers[i].fixed && slot > 0) {
        offsets[slot][i] = offsets[0][i];
        continue;
      }
      offsets[slot][i] = end;
      const size_t begin = end + plan.buffers[i].life.bytes;
      end = rounded(begin) + std::max(guard_bytes, gap(plan.buffers[i].life.bytes));
      guards_.push_back({begin, end - begin, plan.buffers[i].name});
    }
  return offsets;
}

SharedPlaces share_places(const KernelBuffers& plan, int slots) {
  SharedPlaces places{std::vector(static_cast<size_t>(slots), std::vector<size_t>(plan.buffers.size(), 0))};
  std::vector<BufferLife> lives;
  size_t& end = places.bytes;
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    const PlannedBuffer& buffer = plan.buffers[i];
    lives.push_back(buffer.fixed ? BufferLife{} : buffer.life);
    lives.back().bytes += gap(lives.back().bytes);
    if (!buffer.fixed) continue;
    for (auto& offsets : places.offsets) offsets[i] = end;
    end += rounded(buffer.life.bytes + gap(buffer.life.bytes));
  }
  const MemoryPlan arena = plan_memory(lives);
  for (auto& offsets : places.offsets) {
    for (size_t i = 0; i < lives.size(); ++i)
      if (!plan.buffers[i].fixed) offsets[i] = end + arena.offsets[i];
    end += arena.bytes;
  }
  return places;
}

// A guard lies between two buffers: damage near its begin came from the one before, near its end from the one after.
std::string KernelStore::overrun(const std::function<std::string(const std::string&)>& writers) const {
  for (const auto& [name, tensor] : each_)
    if (const std::string how = d5::overrun(tensor); !how.empty())
      return fmt::format("{} wrote {} of {}", writers(name), how, name);
  for (size_t i = 0; i < guards_.size(); ++i) {
    const Guard& guard = guards_[i];
    const Damage damage = guard_damage(base_ + guard.begin, guard.bytes);
    if (damage.first == guard.bytes) continue;
    const bool beyond = i + 1 == guards_.size() || (i > 0 && damage.first < guard.bytes / 2);
    const std::string& buffer = beyond ? guard.after : guards_[i + 1].after;
    return fmt::format("{} wrote byte {} {} of {}", writers(buffer),
                       beyond ? damage.first + 1 : guard.bytes - damage.last,
                       beyond ? "beyond the end" : "before the begin", buffer);
  }
  return {};
}

}  // namespace d5
