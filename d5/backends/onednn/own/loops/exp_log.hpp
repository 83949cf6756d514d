// SPDX-License-Identifier: Apache-2.0
// exp and log, on which most of the others rest. With AVX-512 a table in registers shortens the polynomials, and
// instructions for exponents settle what is beyond the range; elsewhere it is plain arithmetic.
#pragma once

#include "d5/backends/onednn/own/loops/lanes.hpp"

namespace d5::onednn::own::D5_ISA {

// x = n log 2 + r with |r| <= log(2) / 2; the result is p with exp(r) = 1 + r + r^2 p, and the last bits of `shifted`
// are n. Holds for |x| < 2^20.
struct Reduced {
  Vector r, p;
  Words shifted;
};
D5_INLINE Reduced reduced_exp(Vector x) {
  constexpr float rounder = 0x1.8p23f;
  const Vector shifted = x * 0x1.715476p+0f + rounder, whole = shifted - rounder;
  const Vector r = (x - whole * 0x1.62e4p-1f) - whole * 0x1.7f7d1cp-20f;
  Vector p = 0x1.6a2314p-10f * r + 0x1.123a8ep-7f;
  p = p * r + 0x1.5558f6p-5f;
  p = p * r + 0x1.555490p-3f;
  p = p * r + 0x1.fffffcp-2f;
  return {r, p, bits_of(shifted)};
}

#if defined(__AVX512DQ__)

// 2^(k / 32)
alignas(64) constexpr float roots[32] = {
    0x1p+0f,        0x1.059b0ep+0f, 0x1.0b5586p+0f, 0x1.11301ep+0f, 0x1.172b84p+0f, 0x1.1d4874p+0f, 0x1.2387a6p+0f,
    0x1.29e9e0p+0f, 0x1.306fe0p+0f, 0x1.371a74p+0f, 0x1.3dea64p+0f, 0x1.44e086p+0f, 0x1.4bfdaep+0f, 0x1.5342b6p+0f,
    0x1.5ab07ep+0f, 0x1.6247ecp+0f, 0x1.6a09e6p+0f, 0x1.71f75ep+0f, 0x1.7a1148p+0f, 0x1.82589ap+0f, 0x1.8ace54p+0f,
    0x1.93737cp+0f, 0x1.9c4918p+0f, 0x1.a5503cp+0f, 0x1.ae89fap+0f, 0x1.b7f770p+0f, 0x1.c199bep+0f, 0x1.cb720ep+0f,
    0x1.d5818ep+0f, 0x1.dfc974p+0f, 0x1.ea4afap+0f, 0x1.f50766p+0f};
// 2^(n + k / 32) (1 + r (c1 + c2 r)), where `shifted` is the rounder more than `whole` = n + k / 32. Beyond the range
// of exponents r is anything: bounded, it leaves 2^n to decide; for infinities it is no number and becomes the bound.
constexpr float rounder_to_32nds = 0x1.8p18f;
D5_INLINE Vector scaled_root(Vector shifted, Vector whole, Vector any, float c1, float c2) {
  const Vector r = _mm512_range_ps(any, _mm512_set1_ps(0x1p-6f), 2);  // the smaller magnitude, with its sign
  const Vector root =
      _mm512_permutex2var_ps(_mm512_load_ps(roots), _mm512_castps_si512(shifted), _mm512_load_ps(roots + 16));
  const Vector part = r * (c2 * r + c1);
  return _mm512_scalef_ps(root * part + root, whole);  // of `whole` the part below 1 does not count
}
D5_INLINE Vector exp_of(Vector x) {
  const Vector shifted = x * 0x1.715476p+0f + rounder_to_32nds, whole = shifted - rounder_to_32nds;
  // Unrounded products, whatever the compiler contracts: `whole` has too many digits for exact ones.
  const __m512 near = _mm512_fnmadd_ps(whole, _mm512_set1_ps(0x1.62e4p-1f), x);
  const Vector r = _mm512_fnmadd_ps(whole, _mm512_set1_ps(0x1.7f7d1cp-20f), near);
  return scaled_root(shifted, whole, r, 0x1.0000f6p+0f, 0x1.000096p-1f);
}

// For x <= 0, to be summed: what is below exp(-87) may be that. 2^n is added to the exponent of the root, from whose
// bits those that k adds with it are taken off before.
struct Exponents {
  alignas(64) uint32_t of_roots[32];
};
constexpr Exponents exponents = [] {
  Exponents all{};
  for (uint32_t k = 0; k < 32; ++k) all.of_roots[k] = __builtin_bit_cast(uint32_t, roots[k]) - (k << 18);
  return all;
}();
D5_INLINE Vector exp_below(Vector x) {
  const Vector bounded = at_least(x, -87.0f);
  const Vector shifted = bounded * 0x1.715476p+0f + rounder_to_32nds, whole = shifted - rounder_to_32nds;
  const Vector r = _mm512_fmsub_ps(bounded, _mm512_set1_ps(0x1.715476p+0f), whole);
  const __m512i bits = _mm512_permutex2var_epi32(_mm512_load_si512(exponents.of_roots), _mm512_castps_si512(shifted),
                                                 _mm512_load_si512(exponents.of_roots + 16));
  const Vector root = float_of(reinterpret_cast<Words>(bits) + (bits_of(shifted) << 18));
  return root * (r * (0x1.ebfdp-3f * r + 0x1.62e584p-1f)) + root;
}

// m = x 2^-e in [3/4, 3/2), c near 1 / m with four bits of m, r = c m - 1: log x = e log 2 - log c + log(1 + r). Around
// 1 c is 1, so that small logarithms keep their digits. 0, infinities and what is below 0 come out of e and m.
struct Mantissa {
  Vector e, r;
  __m512i place;  // of c and its logarithm
};
D5_INLINE Mantissa mantissa_of(Vector x) {
  alignas(64) static constexpr float inverse[16] = {0x1p+0f,        0x1.d43636p-1f, 0x1.badefep-1f, 0x1.a42db0p-1f,
                                                    0x1.8f9708p-1f, 0x1.7cf1b6p-1f, 0x1.6c1380p-1f, 0x1.5caeb8p-1f,
                                                    0x1.4e77aep+0f, 0x1.41525ap+0f, 0x1.352496p+0f, 0x1.29e368p+0f,
                                                    0x1.1f81eep+0f, 0x1.1599e2p+0f, 0x1.0cadccp+0f, 0x1p+0f};
  const __m512 m = _mm512_getmant_ps(x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_nan);
  const __m512 floor = _mm512_getexp_ps(x), one = _mm512_set1_ps(1.0f);
  const Vector e = _mm512_mask_add_ps(floor, _mm512_cmp_ps_mask(m, one, _CMP_LT_OQ), floor, one);
  const __m512i place = _mm512_srli_epi32(_mm512_castps_si512(m), 19);
  return {e, _mm512_fmsub_ps(m, _mm512_permutexvar_ps(place, _mm512_load_ps(inverse)), one), place};
}
D5_INLINE Vector log_of(Vector x) {
  alignas(64) static constexpr float minus_log[16] = {0,
                                                      0x1.6e32d6p-4f,
                                                      0x1.290ddap-3f,
                                                      0x1.94c6f2p-3f,
                                                      0x1.fbab7ep-3f,
                                                      0x1.2ec494p-2f,
                                                      0x1.5d2504p-2f,
                                                      0x1.8961fep-2f,
                                                      -0x1.11c76ap-2f,
                                                      -0x1.d1707ap-3f,
                                                      -0x1.824e78p-3f,
                                                      -0x1.365b36p-3f,
                                                      -0x1.db6deep-4f,
                                                      -0x1.4bceccp-4f,
                                                      -0x1.8bff52p-5f,
                                                      0};
  const auto [e, r, place] = mantissa_of(x);
  const Vector base = e * 0x1.62e430p-1f + _mm512_permutexvar_ps(place, _mm512_load_ps(minus_log));
  Vector q = 0x1.83f13ep-3f * r - 0x1.0023d6p-2f;
  q = q * r + 0x1.555862p-2f;
  q = q * r - 0x1.fffffep-2f;
  return base + (r * r * q + r);
}

// The logarithm in which powers are computed is that to the base 2: its inverse is shorter.
constexpr float log_of_base = 0x1.62e430p-1f;
D5_INLINE Vector power_log(Vector x) {
  alignas(64) static constexpr float minus_log[16] = {0,
                                                      0x1.08280cp-3f,
                                                      0x1.ac8efap-3f,
                                                      0x1.23fc28p-2f,
                                                      0x1.6e34d8p-2f,
                                                      0x1.b4cd3ep-2f,
                                                      0x1.f7b58cp-2f,
                                                      0x1.1bc404p-1f,
                                                      -0x1.8afac4p-2f,
                                                      -0x1.4fbe58p-2f,
                                                      -0x1.16a948p-2f,
                                                      -0x1.bfbfdep-3f,
                                                      -0x1.56f328p-3f,
                                                      -0x1.deb28ep-4f,
                                                      -0x1.1da6d6p-4f,
                                                      0};
  const auto [e, r, place] = mantissa_of(x);
  Vector q = 0x1.17d75cp-2f * r - 0x1.71882ap-2f;
  q = q * r + 0x1.ec7504p-2f;
  q = q * r - 0x1.715474p-1f;
  q = q * r + 0x1.715476p+0f;
  const Vector base = e + _mm512_permutexvar_ps(place, _mm512_load_ps(minus_log));
  return q * r + base;
}
D5_INLINE Vector power_exp(Vector x) {
  const Vector shifted = x + rounder_to_32nds, whole = shifted - rounder_to_32nds;
  return scaled_root(shifted, whole, x - whole, 0x1.62e584p-1f, 0x1.ebfdp-3f);
}

#else

// exp(r) is near 1, so that 2^n is added to its exponent.
D5_INLINE Vector exp_of(Vector x) {
  const Reduced e = reduced_exp(x);
  const Vector y = float_of(bits_of((e.p * e.r + 1.0f) * e.r + 1.0f) + (e.shifted << 23));
  const Vector finite = x < 0x1.62e430p+6f ? y : x + __builtin_inff();  // NaN stays
  return x < -0x1.5d58a0p+6f ? Vector{} : finite;
}

// log of 2^e m with m in [sqrt(1/2), sqrt(2)), s = (m - 1) / (m + 1): log m = 2 atanh s.
D5_INLINE Vector log_of(Vector x) {
  const auto tiny = x < 0x1p-126f;
  const Vector normal = tiny ? x * 0x1p23f : x;
  const Words shifted = bits_of(normal) - 0x3f3504f3u;
  const Integers exponent = reinterpret_cast<Integers>(shifted) >> 23;
  const Vector e = __builtin_convertvector(exponent, Vector) - (tiny ? Vector{} + 23.0f : Vector{});
  const Vector f = float_of((shifted & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
  const Vector s = f / (f + 2.0f), z = s * s;
  Vector q = 0x1.ec38ecp-3f * z + 0x1.23f0f8p-2f;
  q = q * z + 0x1.999bd6p-2f;
  q = q * z + 0x1.555554p-1f;
  const Vector half_square = 0.5f * f * f;  // log m = f - (f^2 / 2 - s (f^2 / 2 + z q)): f itself is exact
  const Vector result = e * 0x1.62e4p-1f + (f - (half_square - (s * (half_square + z * q) + e * 0x1.7f7d1cp-20f)));
  const Vector special = x == 0.0f ? Vector{} - __builtin_inff()
                                   : (x < 0.0f ? Vector{} + __builtin_nanf("") : x);  // 0; < 0; infinity, NaN
  const Vector above = x > 0.0f ? result : special;
  return x < __builtin_inff() ? above : special;
}

D5_INLINE Vector exp_below(Vector x) { return exp_of(x); }

constexpr float log_of_base = 1.0f;  // powers are computed by natural logarithms
D5_INLINE Vector power_log(Vector x) { return log_of(x); }
D5_INLINE Vector power_exp(Vector x) { return exp_of(x); }

#endif

// For x < 88.
D5_INLINE Vector expm1_of(Vector x) {
  const Reduced e = reduced_exp(at_least(x, -30.0f));
  const Vector power = float_of((e.shifted << 23) + 0x3f800000u);
  return (e.r + e.r * e.r * e.p) * power + (power - 1.0f);
}

}  // namespace d5::onednn::own::D5_ISA
