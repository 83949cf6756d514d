// SPDX-License-Identifier: Apache-2.0
// The numbers of core/rng.hpp (Philox4x32-10), many at once: block b of a stream holds its words 4 b to 4 b + 3.
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

// Lanes 0, 2, ... of both in turn.
D5_INLINE Wides even_lanes(Wides a, Wides b) {
#if defined(__AVX512F__)
  return reinterpret_cast<Wides>(_mm512_unpacklo_epi64(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
#elif defined(__AVX2__)
  return reinterpret_cast<Wides>(_mm256_unpacklo_epi64(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
#else
  return Wides{a[0], b[0]};
#endif
}

D5_INLINE Wides odd_lanes(Wides a, Wides b) {
#if defined(__AVX512F__)
  return reinterpret_cast<Wides>(_mm512_unpackhi_epi64(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
#elif defined(__AVX2__)
  return reinterpret_cast<Wides>(_mm256_unpackhi_epi64(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
#else
  return Wides{a[1], b[1]};
#endif
}

constexpr int chains = 2;  // side by side, because each step waits for the one before

using Words [[gnu::vector_size(width * sizeof(float))]] = uint32_t;

// Verdicts on the words of `chains` vectors of blocks, two vectors of verdicts for each: 1 where a word is at least
// `bound`, else 0. Only the lower half of a lane counts as long as it is multiplied: what is in the upper half need not
// be removed.
D5_INLINE void verdicts(Wides first, uint64_t seed, uint64_t stream, Words bound, Vector* verdict) {
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
  const auto one = reinterpret_cast<Words>(Vector{} + 1.0f);
  for (int c = 0; c < chains; ++c) {
    const Wides even = (c0[c] & 0xffffffffu) | c1[c] << 32, odd = (c2[c] & 0xffffffffu) | c3[c] << 32;
    const auto low = reinterpret_cast<Words>(even_lanes(even, odd)),
               high = reinterpret_cast<Words>(odd_lanes(even, odd));
    verdict[2 * c] = reinterpret_cast<Vector>(low >= bound ? one : Words{});
    verdict[2 * c + 1] = reinterpret_cast<Vector>(high >= bound ? one : Words{});
  }
}

}  // namespace

// `first` is a multiple of four.
void philox_mask(float* mask, uint64_t seed, uint64_t stream, uint64_t first, uint32_t least, int64_t n) {
  const Words bound = Words{} + least;
  Wides index;  // in the order in which pairs of lanes are taken apart
  for (int k = 0; k < blocks; ++k) index[k] = first / 4 + static_cast<uint64_t>(k / 2 + k % 2 * (blocks / 2));
  for (int64_t at = 0; at < n; at += 2 * chains * width, index += static_cast<uint64_t>(chains * blocks)) {
    Vector verdict[2 * chains];
    verdicts(index, seed, stream, bound, verdict);
    for (int v = 0; v < 2 * chains; ++v) {
      const int64_t rest = n - at - v * width;
      if (rest >= width)
        store_vector(mask + at + v * width, verdict[v]);
      else if (rest > 0)
        store_part(mask + at + v * width, rest, verdict[v]);
    }
  }
}

}  // namespace d5::onednn::own::D5_ISA
