// SPDX-License-Identifier: Apache-2.0
// Work cut into one part for each thread: part p has the same share whoever runs it, and scratch of its own.
#pragma once

#include <functional>

#include "d5/backends/onednn/own/tensor_access.hpp"
#include "d5/core/parallel.hpp"

namespace d5::onednn::own {

// f(part, first, last) with [first, last) the part's share of `count`. Nothing is allocated.
template <class F>
void for_each_part(int parts, Index count, const F& f) {
  const auto body = [&](Index from, Index to) {
    for (Index part = from; part < to; ++part)
      f(static_cast<int>(part), count * part / parts, count * (part + 1) / parts);
  };
  parallel_for(parts, 1, std::ref(body));
}

// Regions of scratch, one after the other; offsets are found once, in build(). No two of them begin at the same place
// of a page, where a load would wait for a store to the other; a plan that lies behind another one goes on with its
// count.
class ScratchPlan {
 public:
  ScratchPlan() = default;
  static ScratchPlan behind(const ScratchPlan& other) {
    ScratchPlan plan;
    plan.taken_ = other.taken_;
    return plan;
  }

  size_t take(size_t bytes) {
    const size_t place = 5 * alignment_bytes * taken_++ % page_bytes;
    const size_t offset = bytes_ + (place + page_bytes - bytes_ % page_bytes) % page_bytes;
    bytes_ = offset + aligned_bytes(bytes);
    return offset;
  }
  size_t take_floats(Index n) { return take(static_cast<size_t>(n) * sizeof(float)); }
  size_t take_tile() { return take_floats(tile_elements); }
  size_t bytes() const { return (bytes_ + page_bytes - 1) / page_bytes * page_bytes; }

 private:
  static constexpr size_t page_bytes = 4096;
  size_t bytes_ = 0, taken_ = 0;
};
inline float* floats(void* base, size_t offset) { return reinterpret_cast<float*>(static_cast<char*>(base) + offset); }

// A row of any storable type as f32: where it lies, or converted into `buffer`.
inline const float* load_row(const Operand& operand, const Buffers& b, Index offset, Index n, float* buffer) {
  const void* base = operand.data(b);
  if (operand.type == DType::f32) return static_cast<const float*>(base) + offset;
  return load(operand.type, base, offset, n, buffer);
}

}  // namespace d5::onednn::own
