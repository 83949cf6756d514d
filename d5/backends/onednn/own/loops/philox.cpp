// SPDX-License-Identifier: Apache-2.0
// Dropout by the numbers of core/rng.hpp (Philox4x32-10), many at once: block b of a stream holds its words 4 b to
// 4 b + 3. Numbers are made beside the loads and stores of the elements they decide on, so that neither waits.
#include <utility>

#include "d5/backends/onednn/own/loops/functions.hpp"

namespace d5::onednn::own::D5_ISA {
namespace {

using Wides [[gnu::vector_size(width * sizeof(float))]] = uint64_t;
constexpr int blocks = width / 2;
constexpr uint32_t factor_0 = 0xD2511F53u, factor_1 = 0xCD9E8D57u, step_0 = 0x9E3779B9u, step_1 = 0xBB67AE85u;

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

// Elements that are decided on together: their verdicts are whole words of bits.
constexpr int chains = width >= 8 ? 2 : 4;  // side by side, because each step waits for the one before
constexpr int vectors = 2 * chains, group = vectors * width;
static_assert(most_together % group == 0 && group % 32 == 0);

// The words of the blocks from `first` on in their order: of each pair of lanes `even` has words 1 and 0 of a block and
// `odd` words 3 and 2.
template <int first, size_t... j>
D5_INLINE Words in_order(Wides even, Wides odd, std::index_sequence<j...>) {
  return __builtin_shufflevector(reinterpret_cast<Words>(even), reinterpret_cast<Words>(odd),
                                 (j % 4 / 2 * width + 2 * (first + j / 4) + 1 - j % 2)...);
}

// The words of `chains` vectors of blocks. Only the lower half of a lane counts as long as it is multiplied: what is in
// the upper half need not be removed. What all blocks share (the stream and the upper half of their number) is half of
// the first round and of the second, which is done once.
struct Philox {
  Wides a, b, c, second;  // what all blocks share: terms of rounds 1 and 2, and word 3 after them
  Wides keys[8][2];       // of rounds 3 to 10; those of the last one in the upper halves
  D5_INLINE Philox(uint64_t seed, uint64_t stream, uint64_t first) {
    uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
    const uint64_t p1 = uint64_t{factor_1} * static_cast<uint32_t>(stream);
    const uint32_t word_0 = static_cast<uint32_t>(p1 >> 32) ^ static_cast<uint32_t>(first >> 32) ^ k0;
    a = Wides{} + (static_cast<uint32_t>(stream >> 32) ^ k1);
    k0 += step_0, k1 += step_1;
    const uint64_t p0 = uint64_t{factor_0} * word_0;
    b = Wides{} + (static_cast<uint32_t>(p1) ^ k0);
    second = Wides{} + (static_cast<uint32_t>(p0 >> 32) ^ k1);
    c = Wides{} + static_cast<uint32_t>(p0);
    for (int round = 0; round < 8; ++round) {
      k0 += step_0, k1 += step_1;
      keys[round][0] = Wides{} + (uint64_t{k0} << (round == 7 ? 32 : 0));
      keys[round][1] = Wides{} + (uint64_t{k1} << (round == 7 ? 32 : 0));
    }
  }

  D5_INLINE void words(Wides first, Words* word) const {
    Wides c0[chains], c1[chains], c2[chains], c3[chains];
    for (int i = 0; i < chains; ++i) {
      const Wides p0 = product(factor_0, first + static_cast<uint64_t>(i * blocks));
      const Wides p1 = product(factor_1, (p0 >> 32) ^ a);
      c0[i] = (p1 >> 32) ^ b;
      c1[i] = p1;
      c2[i] = p0 ^ second;
      c3[i] = c;
    }
#pragma GCC unroll 7
    for (int round = 0; round < 7; ++round) {
#pragma GCC unroll 4
      for (int i = 0; i < chains; ++i) {
        const Wides p0 = product(factor_0, c0[i]), p1 = product(factor_1, c2[i]);
        c0[i] = (p1 >> 32) ^ c1[i] ^ keys[round][0];
        c1[i] = p1;
        c2[i] = (p0 >> 32) ^ c3[i] ^ keys[round][1];
        c3[i] = p0;
      }
    }
    // In the last round words stay in the halves where they are.
    for (int i = 0; i < chains; ++i) {
      const Wides even = product(factor_1, c2[i]) ^ (c1[i] << 32) ^ keys[7][0];
      const Wides odd = product(factor_0, c0[i]) ^ (c3[i] << 32) ^ keys[7][1];
      word[2 * i] = in_order<0>(even, odd, std::make_index_sequence<width>());
      word[2 * i + 1] = in_order<width / 4>(even, odd, std::make_index_sequence<width>());
    }
  }
};

// y = factor x where keep is true, else 0; decide(at, keep) answers for a group of elements.
template <class F>
D5_INLINE void keep_some(const Values& x, const Place& y, float factor, int64_t n, F&& decide) {
  alignas(64) float room[tile_elements];
  const bool whole_lines = !y.streamed || reinterpret_cast<uintptr_t>(y.data) % vector_bytes == 0;
  const bool direct = y.type == Element::f32 && whole_lines;
  const auto* from = static_cast<const float*>(x.data);
  if (x.type != Element::f32) {
    widen(x, 0, n, room);
    from = room;
  }
  float* to = direct ? static_cast<float*>(y.data) : room;
  const bool streamed = direct && y.streamed;
  for (int64_t at = 0; at < n; at += group) {
    Lanes keep[vectors];
    decide(at, keep);
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) {
      const int64_t place = at + v * width, rest = n - place;
      if (rest >= width) {
        const Vector kept = where(keep[v], load_vector(from + place) * factor);
        if (streamed)
          stream_vector(reinterpret_cast<char*>(to + place), reinterpret_cast<const char*>(&kept));
        else
          store_vector(to + place, kept);
      } else if (rest > 0) {
        store_part(to + place, rest, where(keep[v], load_part(from + place, rest) * factor));
      }
    }
  }
  if (!direct) convert({room}, y, n);
}

constexpr int vectors_of_word = 32 / width;

}  // namespace

void drop(const Values& x, const Place& y, uint32_t* bits, float factor, uint64_t seed, uint64_t stream, uint64_t first,
          uint32_t least, int64_t n) {
  const Philox philox(seed, stream, first / 4);
  const Words bound = Words{} + least;
  Wides index;
  for (int k = 0; k < blocks; ++k) index[k] = first / 4 + static_cast<uint64_t>(k);
  keep_some(
      x, y, factor, n, [&](int64_t at, Lanes * keep) __attribute__((always_inline)) {
        Words word[vectors];
        philox.words(index, word);
        index += static_cast<uint64_t>(chains * blocks);
        uint32_t verdicts[group / 32] = {};
        for (int v = 0; v < vectors; ++v) {
          keep[v] = not_below(word[v], bound);
          verdicts[v / vectors_of_word] |= bits_of_lanes(keep[v]) << v % vectors_of_word * width;
        }
        __builtin_memcpy(bits + at / 32, verdicts, sizeof verdicts);
      });
}

void keep(const Values& x, const Place& y, const uint32_t* bits, float factor, int64_t n) {
  keep_some(
      x, y, factor, n, [&](int64_t at, Lanes * keep) __attribute__((always_inline)) {
        for (int v = 0; v < vectors; ++v)
          keep[v] = lanes_of_bits(bits[at / 32 + v / vectors_of_word] >> v % vectors_of_word * width);
      });
}

}  // namespace d5::onednn::own::D5_ISA
