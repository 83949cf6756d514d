// SPDX-License-Identifier: Apache-2.0
// How a loop meets memory: a function of vectors applied to elements of any type. f32 in the caches is one plain loop.
// Everything else goes through blocks that stay in registers and the first cache: what is stored past the caches is
// then stored a line at a time between the loads, which keeps memory busy both ways.
#pragma once

#include "d5/backends/onednn/own/loops.hpp"
#include "d5/backends/onednn/own/loops/math.hpp"

namespace d5::onednn::own::D5_ISA {

#define D5_EACH_OF(i, n) _Pragma("omp simd") for (int64_t i = 0; i < (n); ++i)
#define D5_EACH(n) D5_EACH_OF(i, n)

constexpr int64_t block_elements = 64;
// Vectors that are computed before any is stored: the compiler takes turns among them, so that the processor need not
// look far ahead for work that waits for nothing.
constexpr int together = 4;

#if defined(__AVX512F__)
constexpr int64_t vector_bytes = 64;
D5_INLINE void stream_vector(char* to, const char* from) {
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), _mm512_loadu_si512(from));
}
#elif defined(__AVX__)
constexpr int64_t vector_bytes = 32;
D5_INLINE void stream_vector(char* to, const char* from) {
  _mm256_stream_si256(reinterpret_cast<__m256i*>(to), _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
#elif defined(__SSE2__)
constexpr int64_t vector_bytes = 16;
D5_INLINE void stream_vector(char* to, const char* from) {
  _mm_stream_si128(reinterpret_cast<__m128i*>(to), _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
#else
constexpr int64_t vector_bytes = 16;
D5_INLINE void stream_vector(char* to, const char* from) { __builtin_memcpy(to, from, vector_bytes); }
#endif
// Whole vectors to where they are aligned.
D5_INLINE void stream_vectors(char* to, const char* from, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += vector_bytes) stream_vector(to + i, from + i);
}

D5_INLINE int shift_of(Element type) { return type == Element::f32 ? 2 : type == Element::boolean ? 0 : 1; }  // bytes

// Elements from `at` on to f32, and at most a block of them back.
void widen(const Values&, int64_t at, int64_t count, float* to);
void put(const Place&, int64_t at, int64_t count, const float* from);

// A whole block, where it lies or in `room`; beyond `count` elements its values are 0.
D5_INLINE const float* fetch(const Values& from, int64_t at, int64_t count, float* room) {
  if (from.type == Element::f32 && count == block_elements) return static_cast<const float*>(from.data) + at;
  widen(from, at, count, room);
  for (int64_t i = count; i < block_elements; ++i) room[i] = 0.0f;
  return room;
}

// The first block of what is streamed ends at the end of a line.
D5_INLINE int64_t first_count(const Place& out, int64_t n) {
  const int64_t before = (-reinterpret_cast<intptr_t>(out.data) & 63) >> shift_of(out.type);
  const int64_t count = out.streamed && before > 0 ? before : block_elements;
  return count < n ? count : n;
}

// bf16 to nearest even, in the upper half of the word; NaN stays one.
D5_INLINE uint32_t rounded_bf16(float x) {
  const uint32_t u = __builtin_bit_cast(uint32_t, x), rounded = u + 0x7fffu + ((u >> 16) & 1u);
  return x != x ? u | 0x00400000u : rounded;
}
// A block of bf16, which lies in memory two to a word: its even elements become the first half of the block, the odd
// ones the second. That is nothing to functions of single elements, and spares all shuffling.
D5_INLINE void widen_pairs(const void* from, float* to) {
  D5_EACH(block_elements / 2) {
    uint32_t word;
    __builtin_memcpy(&word, static_cast<const char*>(from) + 4 * i, 4);
    to[i] = __builtin_bit_cast(float, word << 16);
    to[block_elements / 2 + i] = __builtin_bit_cast(float, word & 0xffff0000u);
  }
}
D5_INLINE void narrow_pairs(const float* from, uint32_t* words) {
  D5_EACH(block_elements / 2) {
    words[i] = (rounded_bf16(from[i]) >> 16) | (rounded_bf16(from[block_elements / 2 + i]) & 0xffff0000u);
  }
}

// The elements of an array: x[i] is the vector that begins at element i.
struct Line {
  const float* data;
  D5_INLINE Vector operator[](int64_t i) const { return load_vector(data + i); }
};

// out[i] = f(x, i), where x[k][i] is element i of in[k] and its neighbours, for i < n. `out` may be one of `in`.
template <int inputs, class F>
D5_INLINE void each(const Values (&in)[inputs], const Place& out, int64_t n, F&& f) {
  Line x[inputs];
  bool wide = out.type == Element::f32, pairs = out.type == Element::bf16;
  for (int k = 0; k < inputs; ++k) {
    x[k].data = static_cast<const float*>(in[k].data);
    wide = wide && in[k].type == Element::f32;
    pairs = pairs && in[k].type == Element::bf16;
  }
  alignas(64) float rooms[inputs][block_elements], y[block_elements];
  if (wide && !out.streamed) {
    float* to = static_cast<float*>(out.data);
    int64_t i = 0;
    for (; i + together * width <= n; i += together * width) {
      Vector values[together];
#pragma GCC unroll 16
      for (int k = 0; k < together; ++k) values[k] = f(x, i + k * width);
#pragma GCC unroll 16
      for (int k = 0; k < together; ++k) store_vector(to + i + k * width, values[k]);
    }
    for (; i + width <= n; i += width) store_vector(to + i, f(x, i));
    if (i == n) return;
    for (int k = 0; k < inputs; ++k) {
      store_vector(rooms[k], load_part(x[k].data + i, n - i));
      x[k].data = rooms[k];
    }
    store_part(to + i, n - i, f(x, 0));
    return;
  }
  alignas(64) uint32_t words[block_elements / 2];
  const auto whole_block = [&] {
    Vector values[block_elements / width];
#pragma GCC unroll 16
    for (int k = 0; k < block_elements / width; ++k) values[k] = f(x, k * width);
#pragma GCC unroll 16
    for (int k = 0; k < block_elements / width; ++k) store_vector(y + k * width, values[k]);
  };
  for (int64_t at = 0, count = first_count(out, n); at < n;) {
    if (count < block_elements || !(wide || pairs)) {
      for (int k = 0; k < inputs; ++k) x[k].data = fetch(in[k], at, count, rooms[k]);
      whole_block();
      if (out.type == Element::f32 && out.streamed && count == block_elements)
        stream_vectors(static_cast<char*>(out.data) + 4 * at, reinterpret_cast<const char*>(y), sizeof y);
      else
        put(out, at, count, y);
      at += count;
    }
    for (; wide && at + block_elements <= n; at += block_elements) {
      char* to = static_cast<char*>(out.data) + 4 * at;
      for (int j = 0; j < inputs; ++j) x[j].data = static_cast<const float*>(in[j].data) + at;
      for (int64_t k = 0; k < block_elements; k += together * width) {
        Vector values[together];
#pragma GCC unroll 16
        for (int v = 0; v < together; ++v) values[v] = f(x, k + v * width);
#pragma GCC unroll 16
        for (int v = 0; v < together; ++v)
          stream_vector(to + 4 * (k + v * width), reinterpret_cast<const char*>(&values[v]));
      }
    }
    for (; pairs && at + block_elements <= n; at += block_elements) {
      char* to = static_cast<char*>(out.data) + 2 * at;
      for (int k = 0; k < inputs; ++k) {
        x[k].data = rooms[k];
        widen_pairs(static_cast<const char*>(in[k].data) + 2 * at, rooms[k]);
      }
      whole_block();
      narrow_pairs(y, words);
      if (out.streamed)
        stream_vectors(to, reinterpret_cast<const char*>(words), sizeof words);
      else
        __builtin_memcpy(to, words, sizeof words);
    }
    count = n - at < block_elements ? n - at : block_elements;
  }
}

}  // namespace d5::onednn::own::D5_ISA
