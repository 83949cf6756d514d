// SPDX-License-Identifier: Apache-2.0
// Conversions between types, a block at a time, and copies past the caches.
#include "d5/backends/onednn/own/loops/functions.hpp"

namespace d5::onednn::own::D5_ISA {
namespace {

D5_INLINE void from_bf16(const uint16_t* x, float* y, int64_t n) {
  D5_EACH(n) y[i] = __builtin_bit_cast(float, static_cast<uint32_t>(x[i]) << 16);
}
D5_INLINE void to_bf16(const float* x, uint16_t* y, int64_t n) {
  D5_EACH(n) y[i] = static_cast<uint16_t>(rounded_bf16(x[i]) >> 16);
}
D5_INLINE void from_f16(const uint16_t* x, float* y, int64_t n) {
  D5_EACH(n) {
    const uint32_t sign = (x[i] & 0x8000u) << 16, magnitude = x[i] & 0x7fffu;
    const uint32_t normal = (magnitude << 13) + (magnitude >= 0x7c00u ? 0x70000000u : 0x38000000u);
    const uint32_t tiny = __builtin_bit_cast(uint32_t, static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f);
    y[i] = __builtin_bit_cast(float, sign | (magnitude < 0x400u ? tiny : normal));
  }
}
D5_INLINE void to_f16(const float* x, uint16_t* y, int64_t n) {
  D5_EACH(n) {
    const uint32_t u = __builtin_bit_cast(uint32_t, x[i]), sign = (u >> 16) & 0x8000u, magnitude = u & 0x7fffffffu;
    const uint32_t normal = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13;
    const uint32_t tiny = __builtin_bit_cast(uint32_t, __builtin_bit_cast(float, magnitude) + 0.5f) -
                          0x3f000000u;  // the grid of denormals: see core/dtype
    const uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
    uint32_t code = magnitude < 0x38800000u ? tiny : normal;
    code = magnitude >= 0x477ff000u ? 0x7c00u : code;
    code = magnitude > 0x7f800000u ? nan : code;
    y[i] = static_cast<uint16_t>(sign | code);
  }
}
D5_INLINE void from_bool(const uint8_t* x, float* y, int64_t n) { D5_EACH(n) y[i] = x[i] ? 1.0f : 0.0f; }
D5_INLINE void to_bool(const float* x, uint8_t* y, int64_t n) { D5_EACH(n) y[i] = x[i] != 0.0f ? 1 : 0; }

D5_INLINE void narrow(Element type, const float* from, void* to, int64_t n) {
  switch (type) {
    case Element::f32: __builtin_memcpy(to, from, static_cast<size_t>(n) * sizeof(float)); break;
    case Element::bf16: to_bf16(from, static_cast<uint16_t*>(to), n); break;
    case Element::f16: to_f16(from, static_cast<uint16_t*>(to), n); break;
    case Element::boolean: to_bool(from, static_cast<uint8_t*>(to), n); break;
  }
}

}  // namespace

// Whole blocks, whose length the compiler knows, and the rest.
void widen(const Values& values, int64_t at, int64_t count, float* to) {
  const char* from = static_cast<const char*>(values.data) + (at << shift_of(values.type));
  const auto convert = [&](int64_t n) {
    switch (values.type) {
      case Element::f32: __builtin_memcpy(to, from, static_cast<size_t>(n) * sizeof(float)); break;
      case Element::bf16: from_bf16(reinterpret_cast<const uint16_t*>(from), to, n); break;
      case Element::f16: from_f16(reinterpret_cast<const uint16_t*>(from), to, n); break;
      case Element::boolean: from_bool(reinterpret_cast<const uint8_t*>(from), to, n); break;
    }
  };
  count == block_elements ? convert(block_elements) : convert(count);
}

void put(const Place& place, int64_t at, int64_t count, const float* from) {
  char* to = static_cast<char*>(place.data) + (at << shift_of(place.type));
  if (count != block_elements) return narrow(place.type, from, to, count);
  if (!place.streamed) return narrow(place.type, from, to, block_elements);
  alignas(64) char room[block_elements * sizeof(float)];
  narrow(place.type, from, room, block_elements);
  stream_vectors(to, room, block_elements << shift_of(place.type));
}

void convert(const Values& from, const Place& to, int64_t n) {
  if (to.type == Element::f32 && !to.streamed) return widen(from, 0, n, static_cast<float*>(to.data));
  alignas(64) float room[block_elements];
  int64_t count = first_count(to, n);
  for (int64_t at = 0; at < n; at += count, count = n - at < block_elements ? n - at : block_elements)
    put(to, at, count, fetch(from, at, count, room));
}

void stream(void* target, const void* source, int64_t bytes) {
  char* to = static_cast<char*>(target);
  const char* from = static_cast<const char*>(source);
  const int64_t before = -reinterpret_cast<intptr_t>(to) & (vector_bytes - 1), head = before < bytes ? before : bytes;
  const int64_t whole = (bytes - head) / vector_bytes * vector_bytes, rest = bytes - head - whole;
  if (head > 0) __builtin_memcpy(to, from, static_cast<size_t>(head));
  stream_vectors(to + head, from + head, whole);
  if (rest > 0) __builtin_memcpy(to + head + whole, from + head + whole, static_cast<size_t>(rest));
}
void fence() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace d5::onednn::own::D5_ISA
