// SPDX-License-Identifier: Apache-2.0
#include "d5/distributed/quantise.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "d5/core/parallel.hpp"

namespace d5 {
namespace {
constexpr int64_t groups_of_a_task = 64;
}

// A float for each group, and behind it its numbers, 8 / bits in a byte; every group begins at a whole byte.
int64_t Quantiser::encoded_bytes(int64_t numbers) const {
  const int64_t whole = numbers / group_, rest = numbers % group_;
  const auto of_group = [&](int64_t n) { return static_cast<int64_t>(sizeof(float)) + (n * bits_ + 7) / 8; };
  return whole * of_group(group_) + (rest > 0 ? of_group(rest) : 0);
}

void Quantiser::encode(std::span<const float> values, const Rng& rng, uint64_t first, std::byte* to) const {
  const auto n = static_cast<int64_t>(values.size()), per_byte = 8 / bits_;
  parallel_for((n + group_ - 1) / group_, groups_of_a_task, [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; ++g) {
      std::byte* out = to + encoded_bytes(g * group_);
      const int64_t from = g * group_, count = std::min(group_, n - from);
      float largest = 0;
      for (int64_t i = 0; i < count; ++i) {
        const float magnitude = std::abs(values[static_cast<size_t>(from + i)]);
        if (magnitude > largest || std::isnan(magnitude)) largest = magnitude;
      }
      std::memcpy(out, &largest, sizeof largest);
      out += sizeof largest;
      const double scale = largest > 0 ? levels() / static_cast<double>(largest) : 0;
      std::fill_n(out, (count * bits_ + 7) / 8, std::byte{0});
      for (int64_t i = 0; i < count; ++i) {
        const double value = values[static_cast<size_t>(from + i)];
        const double level = std::min(
            levels(), std::floor(std::abs(value) * scale + rng.uniform(first + static_cast<uint64_t>(from + i))));
        // Shifted to be unsigned: 0 to 2 s.
        const auto code = static_cast<unsigned>(levels_ + static_cast<int64_t>(value < 0 ? -level : level));
        out[i / per_byte] |= static_cast<std::byte>(code << (i % per_byte * bits_));
      }
    }
  });
}

void Quantiser::add_decoded(const std::byte* from, std::span<float> sums) const {
  const auto n = static_cast<int64_t>(sums.size()), per_byte = 8 / bits_;
  const unsigned mask = (1U << bits_) - 1;
  parallel_for((n + group_ - 1) / group_, groups_of_a_task, [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; ++g) {
      const std::byte* in = from + encoded_bytes(g * group_);
      const int64_t first = g * group_, count = std::min(group_, n - first);
      float largest = 0;
      std::memcpy(&largest, in, sizeof largest);
      in += sizeof largest;
      const float step = static_cast<float>(static_cast<double>(largest) / levels());
      for (int64_t i = 0; i < count; ++i) {
        const unsigned code = (static_cast<unsigned>(in[i / per_byte]) >> (i % per_byte * bits_)) & mask;
        sums[static_cast<size_t>(first + i)] += step * static_cast<float>(static_cast<int64_t>(code) - levels_);
      }
    }
  });
}

}  // namespace d5
