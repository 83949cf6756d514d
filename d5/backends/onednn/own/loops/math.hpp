// SPDX-License-Identifier: Apache-2.0
// Elementary functions of f32 as straight-line code that compilers turn into vector instructions. Largest errors in
// units of the last place, against double over a dense sweep (tests/unit/backends/own_loops_test.cpp):
//   exp, expm1, log, log1p 2; sin, cos 3; tanh, erf, sinh, cosh, asin, atan 4; tan, acos, asinh, acosh, atanh 5;
//   pow: exp(b log a), which multiplies the error of the logarithm by |b log a|.
// Exponentials below 2^-126 are 0 or off by less than 2^-126; sin, cos and tan hold for |x| < 2^20, beyond which their
// callers take the library's.
#pragma once

#include <cstdint>

#define D5_INLINE [[gnu::always_inline]] inline

namespace d5::onednn::own::D5_ISA {

D5_INLINE uint32_t bits_of(float x) { return __builtin_bit_cast(uint32_t, x); }
D5_INLINE float float_of(uint32_t bits) { return __builtin_bit_cast(float, bits); }
D5_INLINE float absolute(float x) { return float_of(bits_of(x) & 0x7fffffffu); }
D5_INLINE float with_sign(float magnitude, float sign) {
  return float_of((bits_of(magnitude) & 0x7fffffffu) | (bits_of(sign) & 0x80000000u));
}
D5_INLINE float larger(float a, float b) { return a > b ? a : b; }
D5_INLINE float smaller(float a, float b) { return a < b ? a : b; }
D5_INLINE float square_root(float x) { return __builtin_sqrtf(x); }

D5_INLINE float nearest(float x) {  // halves to even
  const float a = absolute(x), r = (a + 0x1p23f) - 0x1p23f;
  return a < 0x1p23f ? with_sign(r, x) : x;
}
D5_INLINE float floor_of(float x) {
  const float r = nearest(x);
  return with_sign(r > x ? r - 1.0f : r, x);
}
D5_INLINE float ceil_of(float x) {
  const float r = nearest(x);
  return with_sign(r < x ? r + 1.0f : r, x);
}
D5_INLINE float trunc_of(float x) { return with_sign(floor_of(absolute(x)), x); }

// x = n log 2 + r with |r| <= log(2) / 2; the result is p with exp(r) = 1 + r + r^2 p, and the last bits of `shifted`
// are n. Holds for |x| < 2^20.
struct Reduced {
  float r, p;
  uint32_t shifted;
};
D5_INLINE Reduced reduced_exp(float x) {
  constexpr float rounder = 0x1.8p23f;
  const float shifted = x * 0x1.715476p+0f + rounder, whole = shifted - rounder;
  const float r = (x - whole * 0x1.62e4p-1f) - whole * 0x1.7f7d1cp-20f;
  float p = 0x1.6a2314p-10f;
  p = p * r + 0x1.123a8ep-7f;
  p = p * r + 0x1.5558f6p-5f;
  p = p * r + 0x1.555490p-3f;
  p = p * r + 0x1.fffffcp-2f;
  return {r, p, bits_of(shifted)};
}
// exp(r) is near 1, so that 2^n is added to its exponent. Beyond the range the choice comes last: before it compilers
// would carry the bounds as constants through everything that follows.
D5_INLINE float exp_of(float x) {
  const Reduced e = reduced_exp(x);
  const float y = float_of(bits_of((e.p * e.r + 1.0f) * e.r + 1.0f) + (e.shifted << 23));
  const float finite = x < 0x1.62e430p+6f ? y : x + __builtin_inff();  // NaN stays
  return x < -0x1.5d58a0p+6f ? 0.0f : finite;
}
// For x < 88.
D5_INLINE float expm1_of(float x) {
  const float bounded = x < -30.0f ? -30.0f : x;
  const Reduced e = reduced_exp(bounded);
  const float power = float_of((e.shifted << 23) + 0x3f800000u);
  return (e.r + e.r * e.r * e.p) * power + (power - 1.0f);
}

// log of 2^e m with m in [sqrt(1/2), sqrt(2)), s = (m - 1) / (m + 1): log m = 2 atanh s.
D5_INLINE float log_of(float x) {
  const bool tiny = x < 0x1p-126f;
  const float normal = tiny ? x * 0x1p23f : x;
  const uint32_t shifted = bits_of(normal) - 0x3f3504f3u;
  const auto e = static_cast<float>((static_cast<int32_t>(shifted) >> 23) - (tiny ? 23 : 0));
  const float f = float_of((shifted & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
  const float s = f / (f + 2.0f), z = s * s;
  float q = 0x1.ec38ecp-3f;
  q = q * z + 0x1.23f0f8p-2f;
  q = q * z + 0x1.999bd6p-2f;
  q = q * z + 0x1.555554p-1f;
  const float half_square = 0.5f * f * f;  // log m = f - (f^2 / 2 - s (f^2 / 2 + z q)): f itself is exact
  const float result = e * 0x1.62e4p-1f + (f - (half_square - (s * (half_square + z * q) + e * 0x1.7f7d1cp-20f)));
  const float special = x == 0.0f ? -__builtin_inff() : x < 0.0f ? __builtin_nanf("") : x;  // 0; < 0; infinity, NaN
  return x > 0.0f && x < __builtin_inff() ? result : special;
}

// 1 + u is rounded; what it lost comes back by the slope of the logarithm.
D5_INLINE float log1p_of(float u) {
  const float w = 1.0f + u, lost = u - (w - 1.0f);
  return w < __builtin_inff() ? log_of(w) + lost / w : u;
}

D5_INLINE float sigmoid_of(float x) { return 1.0f / (1.0f + exp_of(-x)); }
D5_INLINE float within(float x, float bound) { return x < -bound ? -bound : x > bound ? bound : x; }
// tanh and erf: 2 t / (1 + t^2) with t = p / q, where the error of t counts the less the nearer the result is to 1; t
// is tanh of half the argument (for erf of half of what tanh needs to give it), up to where f32 has no number below 1.
// The common factor of p and q (1.84, 1.72) puts what is rounded near 0 just below a power of two, where rounding is
// finest.
struct Ratio {
  float p, q;
};
D5_INLINE float doubled(const Ratio& t) { return 2.0f * t.p * t.q / (t.p * t.p + t.q * t.q); }
D5_INLINE float tanh_of(float x) {
  const float a = within(x, 9.05f), z = a * a;
  const float p = (0x1.b86b58p-14f * z + 0x1.c0b332p-6f) * z + 0x1.d70a3ep-1f;
  const float q = ((0x1.2ef352p-19f * z + 0x1.22d724p-9f) * z + 0x1.aa3394p-3f) * z + 0x1.d70a3ep+0f;
  return doubled({a * p, q});
}
D5_INLINE float half_exp(float x) {  // exp(x) / 2, also where exp(x) is too large
  const float root = exp_of(0.5f * x);
  return 0.5f * root * root;
}
D5_INLINE float sinh_of(float x) {
  const float a = absolute(x), t = expm1_of(smaller(a, 2.0f)), e = half_exp(a);
  return with_sign(a < 1.0f ? 0.5f * (t + t / (t + 1.0f)) : e - 0.25f / e, x);
}
D5_INLINE float cosh_of(float x) {
  const float e = half_exp(absolute(x));
  return e + 0.25f / e;
}
D5_INLINE float softplus_of(float x) { return (x > 0.0f ? x : x != x ? x : 0.0f) + log1p_of(exp_of(-absolute(x))); }

D5_INLINE Ratio erf_ratio(float x) {
  const float a = within(x, 3.95f), z = a * a;
  const float p = ((0x1.1e64d8p-9f * z + 0x1.c6d7acp-6f) * z + 0x1.05e446p-2f) * z + 0x1.f0d912p-1f;
  const float q =
      (((0x1.64d18p-13f * z + 0x1.54e804p-7f) * z + 0x1.555e16p-4f) * z + 0x1.eaa74cp-2f) * z + 0x1.b851ecp+0f;
  return {a * p, q};
}
D5_INLINE float erf_of(float x) { return doubled(erf_ratio(x)); }
// (1 + erf x) / 2 = (p + q)^2 / (2 (p^2 + q^2)), which is 0 where it should be.
D5_INLINE float half_of_erf(float x) {
  const Ratio t = erf_ratio(x);
  const float s = t.p + t.q;
  return 0.5f * s * s / (t.p * t.p + t.q * t.q);
}

// x = n pi/2 + r, in double: the first part of pi/2 has 33 bits, so that its product with n < 2^20 is exact.
struct Quarter {
  float r;
  uint32_t n;
};
D5_INLINE Quarter quarter_of(float x) {
  const double wide = x, shifted = wide * 0x1.45f306dc9c883p-1 + 0x1.8p52, n = shifted - 0x1.8p52;
  const double r = (wide - n * 0x1.921fb544p+0) - n * 0x1.0b4611a626331p-34;
  return {static_cast<float>(r), static_cast<uint32_t>(__builtin_bit_cast(uint64_t, shifted))};
}
D5_INLINE float sine_part(float r) {
  const float z = r * r;
  return r + r * z * ((-0x1.99558ap-13f * z + 0x1.11077cp-7f) * z - 0x1.555546p-3f);
}
D5_INLINE float cosine_part(float r) {
  const float z = r * r;
  return (1.0f - 0.5f * z) + z * z * ((0x1.99e9d4p-16f * z - 0x1.6c0c2cp-10f) * z + 0x1.55554ap-5f);
}
D5_INLINE float turned(const Quarter& q, uint32_t quarters) {  // sin(x + quarters pi/2)
  const uint32_t n = q.n + quarters;
  const float value = n & 1u ? cosine_part(q.r) : sine_part(q.r);
  return float_of(bits_of(value) ^ ((n & 2u) << 30));
}
D5_INLINE float sin_of(float x) { return turned(quarter_of(x), 0); }
D5_INLINE float cos_of(float x) { return turned(quarter_of(x), 1); }
D5_INLINE float tan_of(float x) {
  const Quarter q = quarter_of(x);
  const float s = sine_part(q.r), c = cosine_part(q.r);
  return q.n & 1u ? -c / s : s / c;
}

// Reduced by pi/4 and pi/2 to |t| <= tan(pi/8).
D5_INLINE float atan_of(float x) {
  const float a = absolute(x);
  const bool large = a > 0x1.3504f4p+1f, middle = a > 0x1.a8279ap-2f;
  const float t = large ? -1.0f / a : middle ? (a - 1.0f) / (a + 1.0f) : a;
  const float base = large ? 0x1.921fb6p+0f : middle ? 0x1.921fb6p-1f : 0.0f;
  const float rest = large ? -0x1.777a5cp-25f : middle ? -0x1.777a5cp-26f : 0.0f;
  const float z = t * t;
  float p = -0x1.f2f5b6p-5f;
  p = p * z + 0x1.b228a4p-4f;
  p = p * z - 0x1.23b9f8p-3f;
  p = p * z + 0x1.9991e6p-3f;
  p = p * z - 0x1.55554ap-2f;
  return with_sign(base + (t + (t * z * p + rest)), x);
}

// asin t = t + t z p(z) for |t| <= 1/2, z = t^2.
D5_INLINE float asin_part(float t, float z) {
  float p = 0x1.345970p-5f;
  p = p * z + 0x1.d63a02p-7f;
  p = p * z + 0x1.04c304p-5f;
  p = p * z + 0x1.6ca8d0p-5f;
  p = p * z + 0x1.3338a6p-4f;
  p = p * z + 0x1.55554cp-3f;
  return t + t * z * p;
}
D5_INLINE float asin_of(float x) {
  const float a = absolute(x);
  const bool large = a > 0.5f;
  const float z = large ? 0.5f * (1.0f - a) : a * a, t = large ? square_root(z) : a;
  const float part = asin_part(t, z);
  return with_sign(large ? 0x1.921fb6p+0f - (2.0f * part + 0x1.777a5cp-25f) : part, x);
}
D5_INLINE float acos_of(float x) {
  const float a = absolute(x);
  const bool large = a > 0.5f;
  const float z = large ? 0.5f * (1.0f - a) : a * a, t = large ? square_root(z) : a;
  const float part = asin_part(t, z);
  const float outer = x < 0.0f ? 0x1.921fb6p+1f - (2.0f * part + 0x1.777a5cp-24f) : 2.0f * part;
  return large ? outer : 0x1.921fb6p+0f - (with_sign(part, x) + 0x1.777a5cp-25f);
}
D5_INLINE float asinh_of(float x) {
  const float a = absolute(x), small = smaller(a, 0x1p30f), z = small * small;
  const float near = log1p_of(small + z / (1.0f + square_root(1.0f + z)));
  return with_sign(a < 0x1p30f ? near : log_of(a) + 0x1.62e430p-1f, x);
}
D5_INLINE float acosh_of(float x) {
  const float t = smaller(x, 0x1p30f) - 1.0f;
  return x < 0x1p30f ? log1p_of(t + square_root(t * (t + 2.0f))) : log_of(x) + 0x1.62e430p-1f;
}
D5_INLINE float atanh_of(float x) {
  const float a = absolute(x);
  return with_sign(0.5f * log1p_of(2.0f * a / (1.0f - a)), x);
}

D5_INLINE float pow_of(float a, float b) {
  const float positive = exp_of(b * log_of(absolute(a)));
  const bool whole = nearest(b) == b, odd = whole && nearest(0.5f * b) != 0.5f * b;
  const float negative = whole ? (odd ? -positive : positive) : __builtin_nanf("");
  const float result = a < 0.0f ? negative : positive;
  return b == 0.0f || a == 1.0f ? 1.0f : result;
}

}  // namespace d5::onednn::own::D5_ISA
