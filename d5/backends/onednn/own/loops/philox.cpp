// SPDX-License-Identifier: Apache-2.0
// The numbers of core/rng.hpp (Philox4x32-10), many at once: block b of a stream holds the numbers 2 b and 2 b + 1.
#include "d5/backends/onednn/own/loops/functions.hpp"

namespace d5::onednn::own::D5_ISA {

// mask[i] = 1 where number first + i, without its lowest 11 bits, is at least `least`, else 0; `first` is even.
void philox_mask(float* mask, uint64_t seed, uint64_t stream, uint64_t first, uint64_t least, int64_t n) {
  constexpr int64_t blocks = tile_elements / 2;
  alignas(64) uint64_t numbers[2][blocks];
  const uint64_t low = 0xffffffffu, start = first / 2;
  for (int64_t done = 0; done < n; done += 2 * blocks) {
    const int64_t rest = n - done, pairs = rest < 2 * blocks ? (rest + 1) / 2 : blocks;
    D5_EACH(pairs) {
      const uint64_t index = start + static_cast<uint64_t>(done / 2 + i);
      uint64_t c0 = index & low, c1 = index >> 32, c2 = stream & low, c3 = stream >> 32;
      uint64_t k0 = seed & low, k1 = seed >> 32;
      for (int round = 0; round < 10; ++round) {
        const uint64_t p0 = uint64_t{0xD2511F53} * c0, p1 = uint64_t{0xCD9E8D57} * c2;
        c0 = (p1 >> 32) ^ c1 ^ k0;
        c1 = p1 & low;
        c2 = (p0 >> 32) ^ c3 ^ k1;
        c3 = p0 & low;
        k0 = (k0 + 0x9E3779B9u) & low;
        k1 = (k1 + 0xBB67AE85u) & low;
      }
      numbers[0][i] = c0 | c1 << 32;
      numbers[1][i] = c2 | c3 << 32;
    }
    for (int64_t i = 0; i < pairs; ++i) {
      const int64_t at = done + 2 * i;
      mask[at] = numbers[0][i] >> 11 >= least ? 1.0f : 0.0f;
      if (at + 1 < n) mask[at + 1] = numbers[1][i] >> 11 >= least ? 1.0f : 0.0f;
    }
  }
}

}  // namespace d5::onednn::own::D5_ISA
