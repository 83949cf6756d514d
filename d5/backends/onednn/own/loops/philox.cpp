// SPDX-License-Identifier: Apache-2.0
// The numbers of core/rng.hpp (Philox4x32-10), many at once: block b of a stream holds the numbers 2 b and 2 b + 1.
#include "d5/backends/onednn/own/loops/functions.hpp"

namespace d5::onednn::own::D5_ISA {
namespace {

using Wides [[gnu::vector_size(width * sizeof(float))]] = uint64_t;
constexpr int blocks = width / 2;

// Products of the lower halves.
D5_INLINE Wides product(uint32_t a, Wides b) {
#if defined(__AVX512F__)
  return reinterpret_cast<Wides>(_mm512_mul_epu32(_mm512_set1_epi64(a), reinterpret_cast<__m512i>(b)));
#elif defined(__AVX2__)
  return reinterpret_cast<Wides>(_mm256_mul_epu32(_mm256_set1_epi64x(a), reinterpret_cast<__m256i>(b)));
#elif defined(__SSE2__)
  return reinterpret_cast<Wides>(_mm_mul_epu32(_mm_set1_epi64x(a), reinterpret_cast<__m128i>(b)));
#else
  return uint64_t{a} * (b & 0xffffffffu);
#endif
}

constexpr int chains = 2;  // side by side, because each step waits for the one before

// Verdicts on the numbers of `chains` vectors of blocks: 1 where a number is at least `bound`, else 0. Only the lower
// half of a lane counts as long as it is multiplied: what is in the upper half need not be removed.
D5_INLINE void verdicts(Wides first, uint64_t seed, uint64_t stream, Wides bound, Vector* verdict) {
  Wides c0[chains], c1[chains], c2[chains], c3[chains];
  for (int c = 0; c < chains; ++c) {
    c0[c] = first + static_cast<uint64_t>(c * blocks);
    c1[c] = c0[c] >> 32;
    c2[c] = Wides{} + stream;
    c3[c] = Wides{} + (stream >> 32);
  }
  auto k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
#pragma GCC unroll 2
    for (int c = 0; c < chains; ++c) {
      const Wides p0 = product(0xD2511F53u, c0[c]), p1 = product(0xCD9E8D57u, c2[c]);
      c0[c] = (p1 >> 32) ^ c1[c] ^ k0;
      c1[c] = p1;
      c2[c] = (p0 >> 32) ^ c3[c] ^ k1;
      c3[c] = p0;
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  const Wides below = Wides{} + 0x3f800000u, above = below << 32;  // 1 in the lower and in the upper half
  for (int c = 0; c < chains; ++c) {
    const Wides even = (c0[c] & 0xffffffffu) | c1[c] << 32, odd = (c2[c] & 0xffffffffu) | c3[c] << 32;
    const Wides kept = (even >= bound ? below : Wides{}) | (odd >= bound ? above : Wides{});
    verdict[c] = reinterpret_cast<Vector>(kept);
  }
}

}  // namespace

void philox_mask(float* mask, uint64_t seed, uint64_t stream, uint64_t first, uint64_t least, int64_t n) {
  if (least >> 53 != 0) {  // none is as large
    for (int64_t i = 0; i < n; ++i) mask[i] = 0.0f;
    return;
  }
  const Wides bound = Wides{} + (least << 11);
  Wides index;
  for (int k = 0; k < blocks; ++k) index[k] = first / 2 + static_cast<uint64_t>(k);
  for (int64_t at = 0; at < n; at += chains * width, index += static_cast<uint64_t>(chains * blocks)) {
    Vector verdict[chains];
    verdicts(index, seed, stream, bound, verdict);
    for (int c = 0; c < chains; ++c) {
      const int64_t rest = n - at - c * width;
      if (rest >= width)
        store_vector(mask + at + c * width, verdict[c]);
      else if (rest > 0)
        store_part(mask + at + c * width, rest, verdict[c]);
    }
  }
}

}  // namespace d5::onednn::own::D5_ISA
