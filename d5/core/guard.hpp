// SPDX-License-Identifier: Apache-2.0
// Guards: bytes on both sides of a buffer that nobody may write. Code that runs over an end of the buffer changes them,
// and whoever laid them finds out by looking; until then they cost nothing. Reading beyond an end is not seen.
#pragma once

#include <string>

#include "d5/core/tensor.hpp"

namespace d5 {

inline constexpr size_t guard_bytes = 256;  // whole lines, so that alignment stays

void set_guard(void* begin, size_t bytes);
// The bytes of a guard that were overwritten, counted from its begin; none: {bytes, bytes}.
struct Damage {
  size_t first, last;
};
Damage guard_damage(const void* begin, size_t bytes);

// Host memory that lays a guard on both sides of every allocation.
Memory& guarded_memory();
// How a tensor in guarded memory was run over ("byte 1 beyond the end"), or empty. The tensor is the allocation.
std::string overrun(const Tensor&);

}  // namespace d5
