// SPDX-License-Identifier: Apache-2.0
// Elementary functions of f32, of as many numbers as a register holds (lanes.hpp). Largest errors in units of the last
// place, against double over a dense sweep (tests/unit/backends/own_loops_test.cpp):
//   exp, expm1, log, log1p 2; sin, cos 3; tanh, erf, sinh, cosh, asin, atan 4; tan, acos, asinh, acosh, atanh 5;
//   pow: exp(b log a), which multiplies the error of the logarithm by |b log a|.
// Exponentials below 2^-126 may be 0 or off by less than 2^-126.
#pragma once

#include "d5/backends/onednn/own/loops/pieces.hpp"

namespace d5::onednn::own::D5_ISA {

D5_INLINE Vector nearest(Vector x) {  // halves to even
  const Vector a = absolute(x), r = (a + 0x1p23f) - 0x1p23f;
  return a < 0x1p23f ? with_sign(r, x) : x;
}
D5_INLINE Vector floor_of(Vector x) {
  const Vector r = nearest(x);
  return with_sign(r > x ? r - 1.0f : r, x);
}
D5_INLINE Vector ceil_of(Vector x) {
  const Vector r = nearest(x);
  return with_sign(r < x ? r + 1.0f : r, x);
}
D5_INLINE Vector trunc_of(Vector x) { return with_sign(floor_of(absolute(x)), x); }

// 1 + u is rounded; what it lost comes back by the slope of the logarithm.
D5_INLINE Vector log1p_of(Vector u) {
  const Vector w = 1.0f + u, lost = u - (w - 1.0f);
  return w < __builtin_inff() ? log_of(w) + lost / w : u;
}

D5_INLINE Vector sigmoid_of(Vector x) { return 1.0f / (1.0f + exp_of(-x)); }
D5_INLINE Vector half_exp(Vector x) {  // exp(x) / 2 for x >= 0, also where exp(x) is too large
  const Reduced e = reduced_exp(at_most(x, 100.0f));
  return ((e.p * e.r + 1.0f) * e.r + 1.0f) * 0x1p63f * float_of((e.shifted << 23) + ((127u - 64u) << 23));
}
D5_INLINE Vector sinh_of(Vector x) {
  const Vector a = absolute(x), t = expm1_of(at_most(a, 2.0f)), e = half_exp(a);
  return with_sign(a < 1.0f ? 0.5f * (t + t / (t + 1.0f)) : e - 0.25f / e, x);
}
D5_INLINE Vector cosh_of(Vector x) {
  const Vector e = half_exp(absolute(x));
  return e + 0.25f / e;
}
// x = n pi + r with |r| <= pi/2, n a whole number for the sine and half of an odd one for the cosine: both are +- sin
// r, by the last bit of `parity`. For |x| < 2^16; callers take the library beyond. Where products can be subtracted
// unrounded, what the first part of pi leaves is exact; elsewhere it is done in double, where that part has 33 bits.
struct HalfTurns {
  Vector r;
  Words parity;
};
constexpr float most_turned = 0x1p16f;
#if defined(__FMA__)
D5_INLINE Vector less_product(Vector x, Vector n, float part) {
#if defined(__AVX512F__)
  return _mm512_fnmadd_ps(n, _mm512_set1_ps(part), x);
#else
  return _mm256_fnmadd_ps(n, _mm256_set1_ps(part), x);
#endif
}
template <bool cosine>
D5_INLINE HalfTurns half_turns(Vector x) {
  constexpr float rounder = cosine ? 0x1.800002p23f : 0x1.8p23f;
  const Vector turns = x * 0x1.45f306p-2f;
  const Vector shifted = (cosine ? turns - 0.5f : turns) + rounder, whole = shifted - rounder;
  const Vector n = cosine ? whole + 0.5f : whole;
  const Vector r = less_product(less_product(x, n, 0x1.921fb6p+1f), n, -0x1.777a5cp-24f);
  return {less_product(r, n, -0x1.ee59dap-49f), bits_of(shifted)};
}
#else
template <bool cosine>
D5_INLINE HalfTurns half_turns(Vector x) {
  HalfTurns h;
  for (int k = 0; k < width; ++k) {
    const double wide = x[k], turns = wide * 0x1.45f306dc9c883p-2;
    const double rounder = cosine ? 0x1.8p52 + 1 : 0x1.8p52, shifted = (cosine ? turns - 0.5 : turns) + rounder;
    const double n = (shifted - rounder) + (cosine ? 0.5 : 0.0);
    h.r[k] = static_cast<float>((wide - n * 0x1.921fb544p+1) - n * 0x1.0b4611a626331p-33);
    h.parity[k] = static_cast<uint32_t>(__builtin_bit_cast(uint64_t, shifted));
  }
  return h;
}
#endif
template <bool cosine>
D5_INLINE Vector turned(Vector x) {
  const HalfTurns h = half_turns<cosine>(x);
  const Vector z = h.r * h.r;
  Vector p = 0x1.5db766p-19f * z - 0x1.9f6f8ep-13f;
  p = p * z + 0x1.110ed2p-7f;
  p = p * z - 0x1.55554cp-3f;
  const Vector value = (z * h.r) * p + h.r;
  return float_of(bits_of(value) ^ (h.parity << 31));
}
D5_INLINE Vector sin_of(Vector x) { return turned<false>(x); }
D5_INLINE Vector cos_of(Vector x) { return turned<true>(x); }
D5_INLINE Vector tan_of(Vector x) { return sin_of(x) / cos_of(x); }

// Reduced by pi/4 and pi/2 to |t| <= tan(pi/8).
D5_INLINE Vector atan_of(Vector x) {
  const Vector a = absolute(x), zero{};
  const auto large = a > 0x1.3504f4p+1f, middle = a > 0x1.a8279ap-2f;
  const Vector t = large ? -1.0f / a : (middle ? (a - 1.0f) / (a + 1.0f) : a);
  const Vector base = large ? zero + 0x1.921fb6p+0f : (middle ? zero + 0x1.921fb6p-1f : zero);
  const Vector rest = large ? zero - 0x1.777a5cp-25f : (middle ? zero - 0x1.777a5cp-26f : zero);
  const Vector z = t * t;
  Vector p = -0x1.f2f5b6p-5f * z + 0x1.b228a4p-4f;
  p = p * z - 0x1.23b9f8p-3f;
  p = p * z + 0x1.9991e6p-3f;
  p = p * z - 0x1.55554ap-2f;
  return with_sign(base + (t + (t * z * p + rest)), x);
}

// asin t = t + t z p(z) for |t| <= 1/2, z = t^2.
D5_INLINE Vector asin_part(Vector t, Vector z) {
  Vector p = 0x1.345970p-5f * z + 0x1.d63a02p-7f;
  p = p * z + 0x1.04c304p-5f;
  p = p * z + 0x1.6ca8d0p-5f;
  p = p * z + 0x1.3338a6p-4f;
  p = p * z + 0x1.55554cp-3f;
  return t + t * z * p;
}
D5_INLINE Vector asin_of(Vector x) {
  const Vector a = absolute(x);
  const auto large = a > 0.5f;
  const Vector z = large ? 0.5f * (1.0f - a) : a * a, t = large ? square_root(z) : a;
  const Vector part = asin_part(t, z);
  return with_sign(large ? 0x1.921fb6p+0f - (2.0f * part + 0x1.777a5cp-25f) : part, x);
}
D5_INLINE Vector acos_of(Vector x) {
  const Vector a = absolute(x);
  const auto large = a > 0.5f;
  const Vector z = large ? 0.5f * (1.0f - a) : a * a, t = large ? square_root(z) : a;
  const Vector part = asin_part(t, z);
  const Vector outer = x < 0.0f ? 0x1.921fb6p+1f - (2.0f * part + 0x1.777a5cp-24f) : 2.0f * part;
  return large ? outer : 0x1.921fb6p+0f - (with_sign(part, x) + 0x1.777a5cp-25f);
}
D5_INLINE Vector asinh_of(Vector x) {
  const Vector a = absolute(x), small = at_most(a, 0x1p30f), z = small * small;
  const Vector near = log1p_of(small + z / (1.0f + square_root(1.0f + z)));
  return with_sign(a < 0x1p30f ? near : log_of(a) + 0x1.62e430p-1f, x);
}
D5_INLINE Vector acosh_of(Vector x) {
  const Vector t = at_most(x, 0x1p30f) - 1.0f;
  return x < 0x1p30f ? log1p_of(t + square_root(t * (t + 2.0f))) : log_of(x) + 0x1.62e430p-1f;
}
D5_INLINE Vector atanh_of(Vector x) {
  const Vector a = absolute(x);
  return with_sign(0.5f * log1p_of(2.0f * a / (1.0f - a)), x);
}

// A number at a time only where a is 0 or something is infinite or NaN.
D5_INLINE Vector pow_of(Vector a, Vector b) {
  const Vector product = b * power_log(absolute(a)), positive = power_exp(product);
  if (!all_below(absolute(product), __builtin_inff()))
    return each_lane([](float x, float y) { return __builtin_powf(x, y); }, a, b);
  const Vector half = 0.5f * b, of_whole = nearest(half) == half ? positive : -positive;
  return a > 0.0f ? positive : (nearest(b) == b ? of_whole : Vector{} + __builtin_nanf(""));
}

}  // namespace d5::onednn::own::D5_ISA
