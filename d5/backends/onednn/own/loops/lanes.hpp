// SPDX-License-Identifier: Apache-2.0
// Numbers side by side: a register of the widest kind that this instruction set has, in the compiler's own vector types
// (`a < b ? x : y` chooses lane by lane). Functions of numbers are written for it once, so that no loop depends on what
// a compiler makes of it; what has fewer elements than a register goes through one whose other lanes are 0.
#pragma once

#include <cstdint>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#define D5_INLINE [[gnu::always_inline]] inline

namespace d5::onednn::own::D5_ISA {

#if defined(__AVX512F__)
constexpr int width = 16;
#elif defined(__AVX__)
constexpr int width = 8;
#else
constexpr int width = 4;
#endif
using Vector [[gnu::vector_size(width * sizeof(float))]] = float;
using Words [[gnu::vector_size(width * sizeof(float))]] = uint32_t;
using Integers [[gnu::vector_size(width * sizeof(float))]] = int32_t;

D5_INLINE Vector load_vector(const float* x) {
  Vector v;
  __builtin_memcpy(&v, x, sizeof v);
  return v;
}
D5_INLINE void store_vector(float* x, Vector v) { __builtin_memcpy(x, &v, sizeof v); }

// The first `count` lanes, fewer than `width`.
#if defined(__AVX512F__)
D5_INLINE __mmask16 first_lanes(int64_t count) { return static_cast<__mmask16>((1u << count) - 1u); }
D5_INLINE Vector load_part(const float* x, int64_t count) { return _mm512_maskz_loadu_ps(first_lanes(count), x); }
D5_INLINE void store_part(float* x, int64_t count, Vector v) { _mm512_mask_storeu_ps(x, first_lanes(count), v); }
#else
D5_INLINE Vector load_part(const float* x, int64_t count) {
  Vector v{};
  for (int64_t k = 0; k < count; ++k) v[k] = x[k];
  return v;
}
D5_INLINE void store_part(float* x, int64_t count, Vector v) {
  for (int64_t k = 0; k < count; ++k) x[k] = v[k];
}
#endif
D5_INLINE Vector with_rest(Vector v, int64_t count, float rest) {  // `rest` in the other lanes
  Integers lane{};
  for (int k = 0; k < width; ++k) lane[k] = k;
  return lane < static_cast<int32_t>(count) ? v : Vector{} + rest;
}

D5_INLINE Vector spread(Vector x) { return x; }
D5_INLINE Vector spread(float x) { return Vector{} + x; }

D5_INLINE Words bits_of(Vector x) { return reinterpret_cast<Words>(x); }
D5_INLINE Vector float_of(Words bits) { return reinterpret_cast<Vector>(bits); }
D5_INLINE Vector absolute(Vector x) { return float_of(bits_of(x) & 0x7fffffffu); }
D5_INLINE Vector with_sign(Vector magnitude, Vector sign) {
#if defined(__AVX512F__)
  constexpr int chosen = 0xe4;  // where the third is set the first, else the second
  return reinterpret_cast<Vector>(_mm512_ternarylogic_epi32(
      reinterpret_cast<__m512i>(magnitude), reinterpret_cast<__m512i>(sign), _mm512_set1_epi32(0x7fffffff), chosen));
#else
  return float_of((bits_of(magnitude) & 0x7fffffffu) | (bits_of(sign) & 0x80000000u));
#endif
}
// 1 / x to 2 units of the last place for x whose inverse is a normal number.
D5_INLINE Vector inverse(Vector x) {
#if defined(__AVX512F__)
  const Vector r = _mm512_rcp14_ps(x);
  return r + r * (1.0f - x * r);
#else
  return 1.0f / x;
#endif
}
// a > b ? a : b and a < b ? a : b: of what cannot be compared b.
#if defined(__AVX512F__)
D5_INLINE Vector larger(Vector a, Vector b) { return _mm512_max_ps(a, b); }
D5_INLINE Vector smaller(Vector a, Vector b) { return _mm512_min_ps(a, b); }
#elif defined(__AVX__)
D5_INLINE Vector larger(Vector a, Vector b) { return _mm256_max_ps(a, b); }
D5_INLINE Vector smaller(Vector a, Vector b) { return _mm256_min_ps(a, b); }
#elif defined(__SSE2__)
D5_INLINE Vector larger(Vector a, Vector b) { return _mm_max_ps(a, b); }
D5_INLINE Vector smaller(Vector a, Vector b) { return _mm_min_ps(a, b); }
#else
D5_INLINE Vector larger(Vector a, Vector b) { return a > b ? a : b; }
D5_INLINE Vector smaller(Vector a, Vector b) { return a < b ? a : b; }
#endif
D5_INLINE Vector at_most(Vector x, float bound) { return smaller(Vector{} + bound, x); }  // NaN stays
D5_INLINE Vector at_least(Vector x, float bound) { return larger(Vector{} + bound, x); }

#if defined(__AVX512F__)
D5_INLINE Vector square_root(Vector x) { return _mm512_sqrt_ps(x); }
D5_INLINE bool all_below(Vector x, float bound) {
  return _mm512_cmp_ps_mask(x, _mm512_set1_ps(bound), _CMP_NLT_UQ) == 0;
}
#else
D5_INLINE Vector square_root(Vector x) {
#if defined(__AVX__)
  return _mm256_sqrt_ps(x);
#elif defined(__SSE2__)
  return _mm_sqrt_ps(x);
#else
  for (int k = 0; k < width; ++k) x[k] = __builtin_sqrtf(x[k]);
  return x;
#endif
}
D5_INLINE bool all_below(Vector x, float bound) {
  int32_t all = -1;
  const Integers below = x < bound;
  for (int k = 0; k < width; ++k) all &= below[k];
  return all != 0;
}
#endif

// Yes or no for each lane, and its bits, the lowest for the first lane.
#if defined(__AVX512F__)
using Lanes = __mmask16;
D5_INLINE Lanes not_below(Words a, Words b) {
  return _mm512_cmpge_epu32_mask(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b));
}
D5_INLINE Vector where(Lanes yes, Vector x) { return _mm512_maskz_mov_ps(yes, x); }  // 0 elsewhere
D5_INLINE uint32_t bits_of_lanes(Lanes yes) { return yes; }
D5_INLINE Lanes lanes_of_bits(uint32_t bits) { return static_cast<Lanes>(bits); }
#else
using Lanes = Integers;
D5_INLINE Lanes not_below(Words a, Words b) { return a >= b; }
D5_INLINE Vector where(Lanes yes, Vector x) { return reinterpret_cast<Vector>(reinterpret_cast<Integers>(x) & yes); }
D5_INLINE uint32_t bits_of_lanes(Lanes yes) {
#if defined(__AVX__)
  return static_cast<uint32_t>(_mm256_movemask_ps(reinterpret_cast<__m256>(yes)));
#elif defined(__SSE2__)
  return static_cast<uint32_t>(_mm_movemask_ps(reinterpret_cast<__m128>(yes)));
#else
  uint32_t bits = 0;
  for (int k = 0; k < width; ++k) bits |= (static_cast<uint32_t>(yes[k]) & 1u) << k;
  return bits;
#endif
}
D5_INLINE Lanes lanes_of_bits(uint32_t bits) {
  Integers own{};
  for (int k = 0; k < width; ++k) own[k] = 1 << k;
  return ((Integers{} + static_cast<int32_t>(bits)) & own) == own;
}
#endif

// What is rare or hard, a number at a time.
template <class F>
[[gnu::noinline]] Vector each_lane(F f, Vector x) {
  for (int k = 0; k < width; ++k) x[k] = f(x[k]);
  return x;
}
template <class F>
[[gnu::noinline]] Vector each_lane(F f, Vector x, Vector y) {
  for (int k = 0; k < width; ++k) x[k] = f(x[k], y[k]);
  return x;
}

}  // namespace d5::onednn::own::D5_ISA
