// SPDX-License-Identifier: Apache-2.0
// Guards: bytes on both sides of a buffer that nobody may write. Code that runs over an end of the buffer changes them,
// and whoever laid them finds out by looking; until then they cost nothing. Reading beyond an end is not seen.
#pragma once

#include <string>

#include "d5/core/tensor.hpp"

namespace d5 {

// Whole lines, so that alignment stays. Wide ones are for code of a user while nothing is timed: an index that is wrong
// is often far wrong. Beyond them lie pages that nobody may write (far_guard.hpp).
inline constexpr size_t guard_bytes = 256, wide_guard_bytes = size_t{256} << 10;

void set_guard(void* begin, size_t bytes);
// The bytes of a guard that were overwritten, counted from its begin; none: {bytes, bytes}.
struct Damage {
  size_t first, last;
};
Damage guard_damage(const void* begin, size_t bytes);

// Host memory that lays a guard on both sides of every allocation.
Memory& guarded_memory();
Memory& widely_guarded_memory();

// While one lives, each buffer of what is compiled on this thread lies in widely guarded memory.
class WideGuards {
 public:
  WideGuards();
  ~WideGuards();
  WideGuards(const WideGuards&) = delete;
  WideGuards& operator=(const WideGuards&) = delete;
};
bool wide_guards_wanted();

// How a tensor in such memory was run over ("byte 1 beyond the end"), or empty. The tensor is the allocation.
std::string overrun(const Tensor&);

}  // namespace d5
