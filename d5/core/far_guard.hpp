// SPDX-License-Identifier: Apache-2.0
// Address space is free: far on both sides of a buffer lie pages that nobody may write, as far as a wrong index of 32
// bits goes. Who writes there is noted and goes on, on a page of its own, so that whoever laid the guard can say where;
// who does not stop is ended by SIGSEGV. Reading there gives zeros.
#pragma once

#include <cstddef>

#include "d5/core/guard.hpp"

namespace d5 {

inline constexpr size_t far_guard_bytes = size_t{16} << 30;  // 2^31 elements of 8 bytes

// A whole number of pages, aligned to a huge one, that nobody may write; nullptr where there is no room for so much
// (ulimit -v).
void* reserve_pages(size_t bytes);
bool is_reserved(const void*);
bool open_pages(void* begin, size_t bytes);  // of these: zeros, to be read and written; false where there are none left
void release_pages(void* begin, size_t bytes) noexcept;
inline constexpr size_t page_bytes = 4096;
constexpr size_t whole_pages(size_t bytes) { return (bytes + page_bytes - 1) / page_bytes * page_bytes; }

// Like guard_damage, of pages that were reserved and not opened.
Damage far_damage(const void* begin, size_t bytes);

}  // namespace d5
