// SPDX-License-Identifier: Apache-2.0
#include "d5/core/rng.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "d5/core/convert.hpp"
#include "d5/core/error.hpp"
#include "d5/core/parallel.hpp"

namespace d5 {
namespace {

struct Pair {
  uint64_t even, odd;
};

// Block b of a stream holds the numbers 2 b and 2 b + 1.
inline Pair philox_pair(uint64_t seed, uint64_t stream, uint64_t index) {
  uint32_t c0 = static_cast<uint32_t>(index), c1 = static_cast<uint32_t>(index >> 32);
  uint32_t c2 = static_cast<uint32_t>(stream), c3 = static_cast<uint32_t>(stream >> 32);
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c0, p1 = uint64_t{0xCD9E8D57} * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(p1);
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(p0);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return {c0 | uint64_t{c1} << 32, c2 | uint64_t{c3} << 32};
}

double unit(uint64_t bits) { return static_cast<double>(static_cast<int64_t>(bits >> 11)) * 0x1p-53; }  // [0, 1)

// Box and Muller, 1958. The logarithm's argument lies in (0, 1].
std::pair<double, double> normal_pair(Pair bits) {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - unit(bits.even)));
  const double angle = 2.0 * std::numbers::pi * unit(bits.odd);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

// Makes numbers of the stream in a block in cache, value by value from pairs of numbers, and converts the block into
// the tensor. Blocks are even, so no two of them share a byte of 4-bit values.
template <class T, class Make>
void fill(const Tensor& tensor, const Rng& rng, std::string_view what, Make make) {
  if (!tensor.present() || !tensor.memory().is_host()) throw Error("[rng] {} needs a tensor on the host", what);
  if (tensor.dtype() == DType::string) throw Error("[rng] {} cannot fill strings", what);
  constexpr int64_t block = 1024, grain = 16;
  const int64_t elements = tensor.elements();
  parallel_for((elements + block - 1) / block, grain, [&](int64_t first, int64_t last) {
    const uint64_t seed = rng.seed(), stream = rng.stream();
    std::array<Pair, block / 2> numbers;
    std::array<T, block> values;
    for (int64_t b = first; b < last; ++b) {
      const int64_t start = b * block, count = std::min(block, elements - start);
      const auto first_pair = static_cast<uint64_t>(start / 2);
      for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = philox_pair(seed, stream, first_pair + i);
      for (size_t i = 0; i < numbers.size(); ++i) make(numbers[i], values[2 * i], values[2 * i + 1]);
      convert(dtype_of<T>::value, values.data(), tensor.dtype(),
              static_cast<char*>(tensor.data()) + storage_bytes(tensor.dtype(), start), count);
    }
  });
}

uint64_t scaled(uint64_t bits, uint64_t bound) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(bits) * bound) >> 64);
}

}  // namespace

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  const auto join = [](uint32_t low, uint32_t high) { return low | uint64_t{high} << 32; };
  const Pair pair = philox_pair(join(key[0], key[1]), join(counter[2], counter[3]), join(counter[0], counter[1]));
  return {static_cast<uint32_t>(pair.even), static_cast<uint32_t>(pair.even >> 32), static_cast<uint32_t>(pair.odd),
          static_cast<uint32_t>(pair.odd >> 32)};
}

uint64_t Rng::bits(uint64_t index) const {
  const Pair pair = philox_pair(seed_, stream_, index / 2);
  return index % 2 ? pair.odd : pair.even;
}

double Rng::uniform(uint64_t index) const { return unit(bits(index)); }

double Rng::normal(uint64_t index) const {
  const auto [even, odd] = normal_pair(philox_pair(seed_, stream_, index / 2));
  return index % 2 ? odd : even;
}

uint64_t Rng::below(uint64_t index, uint64_t bound) const {
  if (bound == 0) throw Error("[rng] a number below 0 is asked for; the bound is at least 1");
  return scaled(bits(index), bound);
}

uint64_t stream_of(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

void fill_uniform(const Tensor& tensor, const Rng& rng, double low, double high) {
  const double width = high - low;
  fill<double>(tensor, rng, "fill_uniform", [=](Pair numbers, double& even, double& odd) {
    even = low + width * unit(numbers.even);
    odd = low + width * unit(numbers.odd);
  });
}

void fill_normal(const Tensor& tensor, const Rng& rng, double mean, double deviation) {
  fill<double>(tensor, rng, "fill_normal", [=](Pair numbers, double& even, double& odd) {
    const auto [x, y] = normal_pair(numbers);
    even = mean + deviation * x;
    odd = mean + deviation * y;
  });
}

void fill_integers(const Tensor& tensor, const Rng& rng, int64_t low, int64_t high) {
  if (high < low) throw Error("[rng] fill_integers from {} to {}: the first may not exceed the second", low, high);
  const uint64_t values = static_cast<uint64_t>(high) - static_cast<uint64_t>(low) + 1;  // 0: all 2^64
  const auto draw = [=](uint64_t bits) {
    return static_cast<int64_t>(static_cast<uint64_t>(low) + (values ? scaled(bits, values) : bits));
  };
  fill<int64_t>(tensor, rng, "fill_integers", [=](Pair numbers, int64_t& even, int64_t& odd) {
    even = draw(numbers.even);
    odd = draw(numbers.odd);
  });
}

void shuffle(std::span<int64_t> values, const Rng& rng) {
  for (size_t i = values.size(); i-- > 1;) std::swap(values[i], values[rng.below(i, i + 1)]);
}

}  // namespace d5
