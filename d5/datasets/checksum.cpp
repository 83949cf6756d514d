// SPDX-License-Identifier: Apache-2.0
#include "d5/datasets/checksum.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>

#include "d5/datasets/byte_order.hpp"
#include "d5/datasets/byte_source.hpp"
#include "d5/datasets/file_bytes.hpp"

namespace d5 {
namespace {

// Both sums take blocks of 64 bytes, and end with a set bit, zeros and the number of bits.
template <class Sum>
class Blocks {
 public:
  void add(const uint8_t* data, size_t bytes) {
    total_ += bytes;
    while (bytes > 0) {
      const size_t piece = std::min(bytes, block_.size() - filled_);
      std::memcpy(block_.data() + filled_, data, piece);
      filled_ += piece;
      data += piece;
      bytes -= piece;
      if (filled_ == block_.size()) flush();
    }
  }
  std::string digits() {
    const auto length = stored(total_ * 8, Sum::order);
    const uint8_t bit = 0x80, zero = 0;
    add(&bit, 1);
    while (filled_ != 56) add(&zero, 1);
    add(length.data(), 8);
    std::string text;
    for (const uint32_t word : sum_.state)
      for (const uint8_t byte : stored(word, Sum::order)) text += fmt::format("{:02x}", byte);
    return text;
  }

 private:
  void flush() {
    sum_.take(block_.data());
    filled_ = 0;
  }
  Sum sum_;
  std::array<uint8_t, 64> block_;
  size_t filled_ = 0;
  uint64_t total_ = 0;
};

struct Md5 {
  static constexpr std::endian order = std::endian::little;
  std::array<uint32_t, 4> state{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};

  void take(const uint8_t* block) {
    // floor(2^32 |sin(i + 1)|)
    static const auto sines = [] {
      std::array<uint32_t, 64> all;
      for (size_t i = 0; i < 64; ++i)
        all[i] = static_cast<uint32_t>(std::floor(std::fabs(std::sin(double(i + 1))) * 4294967296.0));
      return all;
    }();
    static constexpr std::array<std::array<int, 4>, 4> turns{
        {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}}};
    std::array<uint32_t, 16> words;
    for (size_t i = 0; i < 16; ++i) words[i] = load_little<uint32_t>(block + 4 * i);
    auto [a, b, c, d] = state;
    for (size_t i = 0; i < 64; ++i) {
      uint32_t mixed = 0;
      size_t word = 0;
      switch (i / 16) {
        case 0: mixed = (b & c) | (~b & d), word = i; break;
        case 1: mixed = (d & b) | (~d & c), word = (5 * i + 1) % 16; break;
        case 2: mixed = b ^ c ^ d, word = (3 * i + 5) % 16; break;
        default: mixed = c ^ (b | ~d), word = 7 * i % 16;
      }
      mixed += a + sines[i] + words[word];
      a = d;
      d = c;
      c = b;
      b += std::rotl(mixed, turns[i / 16][i % 4]);
    }
    state = {state[0] + a, state[1] + b, state[2] + c, state[3] + d};
  }
};

struct Sha256 {
  static constexpr std::endian order = std::endian::big;
  // The first 32 bits of the fractions of square roots and cube roots of the first primes.
  static uint32_t fraction(long double root) {
    return static_cast<uint32_t>((root - std::floor(root)) * 4294967296.0L);
  }
  static const std::array<uint32_t, 64>& primes() {
    static const auto all = [] {
      std::array<uint32_t, 64> found{};
      size_t count = 0;
      for (uint32_t n = 2; count < 64; ++n) {
        bool prime = true;
        for (size_t i = 0; i < count && prime; ++i) prime = n % found[i] != 0;
        if (prime) found[count++] = n;
      }
      return found;
    }();
    return all;
  }
  std::array<uint32_t, 8> state;
  Sha256() {
    for (size_t i = 0; i < 8; ++i) state[i] = fraction(std::sqrt(static_cast<long double>(primes()[i])));
  }
  void take(const uint8_t* block) {
    static const auto roots = [] {
      std::array<uint32_t, 64> all;
      for (size_t i = 0; i < 64; ++i) all[i] = fraction(std::cbrt(static_cast<long double>(primes()[i])));
      return all;
    }();
    std::array<uint32_t, 64> w;
    for (size_t i = 0; i < 16; ++i) w[i] = load_big<uint32_t>(block + 4 * i);
    for (size_t i = 16; i < 64; ++i) {
      const uint32_t x = w[i - 15], y = w[i - 2];
      w[i] = w[i - 16] + (std::rotr(x, 7) ^ std::rotr(x, 18) ^ (x >> 3)) + w[i - 7] +
             (std::rotr(y, 17) ^ std::rotr(y, 19) ^ (y >> 10));
    }
    auto s = state;
    for (size_t i = 0; i < 64; ++i) {
      const uint32_t e = s[4], a = s[0];
      const uint32_t first =
          s[7] + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & s[5]) ^ (~e & s[6])) + roots[i] + w[i];
      const uint32_t second =
          (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
      s = {first + second, s[0], s[1], s[2], s[3] + first, s[4], s[5], s[6]};
    }
    for (size_t i = 0; i < 8; ++i) state[i] += s[i];
  }
};

template <class Sum>
std::string sum_of(std::string_view bytes) {
  Blocks<Sum> blocks;
  blocks.add(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  return blocks.digits();
}

// `read` gives fewer bytes than asked for at the end.
using Read = std::function<size_t(uint8_t* to, size_t bytes)>;
template <class Sum>
std::string sum_of_pieces(const Read& read) {
  Blocks<Sum> blocks;
  std::vector<uint8_t> piece(1 << 20);
  for (size_t got = piece.size(); got == piece.size();) {
    got = read(piece.data(), piece.size());
    blocks.add(piece.data(), got);
  }
  return blocks.digits();
}

std::string named_sum(std::string_view kind, const Read& read) {
  if (kind == "md5") return "md5:" + sum_of_pieces<Md5>(read);
  if (kind == "sha256") return "sha256:" + sum_of_pieces<Sha256>(read);
  throw UsageError("[data] checksum '{}'; legal: md5, sha256", std::string(kind));
}

}  // namespace

std::string md5(std::string_view bytes) { return sum_of<Md5>(bytes); }
std::string sha256(std::string_view bytes) { return sum_of<Sha256>(bytes); }

std::string file_checksum(const std::string& path, std::string_view kind) {
  const auto file = FileBytes::map(path);
  uint64_t at = 0;
  return named_sum(kind, [&](uint8_t* to, size_t bytes) {
    const size_t piece = std::min<uint64_t>(bytes, file->size() - at);
    file->copy(at, piece, to);
    at += piece;
    return piece;
  });
}

std::string contents_checksum(const std::string& path, std::string_view kind) {
  const auto source = open_source(FileBytes::map(path));
  return named_sum(kind, [&](uint8_t* to, size_t bytes) { return source->read(to, bytes); });
}

}  // namespace d5
