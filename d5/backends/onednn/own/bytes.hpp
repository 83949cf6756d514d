// SPDX-License-Identifier: Apache-2.0
// Moving elements whose meaning does not matter: only their size.
#pragma once

#include <cstring>

#include "d5/backends/onednn/own/parts.hpp"

namespace d5::onednn::own {

// Elements that are whole bytes; 4-bit types and strings are not.
inline std::optional<std::string> not_whole_bytes(const TensorSpec& spec) {
  if (spec.dtype != DType::string && bits(spec.dtype) % 8 == 0) return {};
  return fmt::format("its kernel moves whole bytes, not {}", name(spec.dtype));
}
inline Index element_bytes(DType type) { return bits(type) / 8; }

// A contiguous copy on all threads.
inline void copy_bytes(int parts, void* to, const void* from, Index bytes, bool streamed) {
  constexpr Index block = 1 << 12;
  const Index blocks = (bytes + block - 1) / block;
  for_each_part(blocks < 64 ? 1 : parts, blocks, [&](int, Index first, Index last) {
    const Index start = first * block, count = std::min(last * block, bytes) - start;
    if (count <= 0) return;
    char* target = static_cast<char*>(to) + start;
    const char* source = static_cast<const char*>(from) + start;
    if (streamed) {
      loops().stream(target, source, count);
      loops().fence();
    } else {
      std::memcpy(target, source, static_cast<size_t>(count));
    }
  });
}

inline void zero_bytes(int parts, void* to, Index bytes) {
  constexpr Index block = 1 << 12;
  const Index blocks = (bytes + block - 1) / block;
  for_each_part(blocks < 64 ? 1 : parts, blocks, [&](int, Index first, Index last) {
    const Index start = first * block, count = std::min(last * block, bytes) - start;
    if (count > 0) std::memset(static_cast<char*>(to) + start, 0, static_cast<size_t>(count));
  });
}

// dst[i * dst_stride] = src[i * src_stride] for elements of 1, 2, 4 or 8 bytes.
inline void copy_strided(char* to, Index to_stride, const char* from, Index from_stride, Index n, Index size) {
  const auto loop = [&]<class T>(T) {
    T* t = reinterpret_cast<T*>(to);
    const T* f = reinterpret_cast<const T*>(from);
    for (Index i = 0; i < n; ++i) t[i * to_stride] = f[i * from_stride];
  };
  switch (size) {
    case 1: return loop(uint8_t{});
    case 2: return loop(uint16_t{});
    case 4: return loop(uint32_t{});
    default: return loop(uint64_t{});
  }
}

}  // namespace d5::onednn::own
