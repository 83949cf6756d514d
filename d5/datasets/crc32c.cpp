// SPDX-License-Identifier: Apache-2.0
#include "d5/datasets/crc32c.hpp"

#include <array>
#include <cstring>

namespace d5 {
namespace {

constexpr uint32_t polynomial = 0x82f63b78;  // reversed

constexpr auto byte_tables = [] {
  std::array<std::array<uint32_t, 256>, 8> tables{};
  for (uint32_t n = 0; n < 256; ++n) {
    uint32_t crc = n;
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? (crc >> 1) ^ polynomial : crc >> 1;
    tables[0][n] = crc;
  }
  for (uint32_t n = 0; n < 256; ++n)
    for (size_t k = 1; k < 8; ++k) tables[k][n] = tables[0][tables[k - 1][n] & 255] ^ (tables[k - 1][n] >> 8);
  return tables;
}();

// The register after `bytes` more zero bytes is linear in the register: a table per byte of it.
using Advance = std::array<std::array<uint32_t, 256>, 4>;
Advance advance_table(size_t bytes) {
  const auto advanced = [bytes](uint32_t crc) {
    for (size_t i = 0; i < bytes; ++i) crc = byte_tables[0][crc & 255] ^ (crc >> 8);
    return crc;
  };
  std::array<uint32_t, 32> of_bit;
  for (size_t bit = 0; bit < 32; ++bit) of_bit[bit] = advanced(uint32_t{1} << bit);
  Advance table{};
  for (size_t byte = 0; byte < 4; ++byte)
    for (uint32_t n = 0; n < 256; ++n)
      for (size_t bit = 0; bit < 8; ++bit)
        if (n >> bit & 1) table[byte][n] ^= of_bit[8 * byte + bit];
  return table;
}

#if defined(__x86_64__)
constexpr size_t lane = 1024;  // bytes; the instruction has a latency of three, so three lanes run side by side

uint32_t advance(const Advance& table, uint32_t crc) {
  return table[0][crc & 255] ^ table[1][crc >> 8 & 255] ^ table[2][crc >> 16 & 255] ^ table[3][crc >> 24];
}

__attribute__((target("sse4.2"))) uint32_t by_instruction(const uint8_t* at, size_t bytes) {
  static const Advance one = advance_table(lane), two = advance_table(2 * lane);
  const auto word = [](const uint8_t* from) {
    uint64_t value;
    std::memcpy(&value, from, 8);
    return value;
  };
  uint64_t crc = 0xffffffff;
  for (; bytes >= 3 * lane; at += 3 * lane, bytes -= 3 * lane) {
    uint64_t second = 0, third = 0;
    for (size_t line = 0; line < lane; line += 64) {
      // The processor does not see a stream in three lanes: the next three are asked for while these are summed.
      for (size_t next = 0; next < 192; next += 64) __builtin_prefetch(at + 3 * lane + 3 * line + next);
      for (size_t i = line; i < line + 64; i += 8) {
        crc = __builtin_ia32_crc32di(crc, word(at + i));
        second = __builtin_ia32_crc32di(second, word(at + lane + i));
        third = __builtin_ia32_crc32di(third, word(at + 2 * lane + i));
      }
    }
    crc = advance(two, static_cast<uint32_t>(crc)) ^ advance(one, static_cast<uint32_t>(second)) ^ third;
  }
  for (; bytes >= 8; at += 8, bytes -= 8) crc = __builtin_ia32_crc32di(crc, word(at));
  for (; bytes > 0; ++at, --bytes) crc = __builtin_ia32_crc32qi(static_cast<uint32_t>(crc), *at);
  return ~static_cast<uint32_t>(crc);
}
#endif

}  // namespace

uint32_t crc32c_plain(const void* data, size_t bytes) {
  const auto* at = static_cast<const uint8_t*>(data);
  const auto& t = byte_tables;
  uint32_t crc = 0xffffffff;
  for (; bytes >= 8; at += 8, bytes -= 8) {
    const uint32_t low = crc ^ (at[0] | at[1] << 8 | at[2] << 16 | uint32_t{at[3]} << 24);
    crc = t[7][low & 255] ^ t[6][low >> 8 & 255] ^ t[5][low >> 16 & 255] ^ t[4][low >> 24] ^ t[3][at[4]] ^ t[2][at[5]] ^
          t[1][at[6]] ^ t[0][at[7]];
  }
  for (; bytes > 0; ++at, --bytes) crc = t[0][(crc ^ *at) & 255] ^ (crc >> 8);
  return ~crc;
}

uint32_t crc32c(const void* data, size_t bytes) {
#if defined(__x86_64__)
  static const bool instruction = __builtin_cpu_supports("sse4.2");
  if (instruction) return by_instruction(static_cast<const uint8_t*>(data), bytes);
#endif
  return crc32c_plain(data, bytes);
}

}  // namespace d5
