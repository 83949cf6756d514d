// SPDX-License-Identifier: Apache-2.0
// The largest magnitudes of every group of consecutive numbers. What is no number counts as larger than all: it goes to
// where it is seen.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

namespace d5 {

class TopK {
 public:
  TopK(double density, int64_t group)
      : group_(static_cast<size_t>(group)), share_(density), magnitudes_(static_cast<size_t>(group)) {}

  size_t chosen_of(size_t group) const {  // at least one
    return std::clamp<size_t>(static_cast<size_t>(std::ceil(share_ * static_cast<double>(group))), 1, group);
  }

  // values += scale left; then the largest stay in `values`, with zeros between, and the others go to `left`.
  void split(std::span<float> values, std::span<float> left, float scale) {
    for (size_t first = 0; first < values.size(); first += group_) {
      const size_t count = std::min(group_, values.size() - first);
      split_group(values.subspan(first, count), left.subspan(first, count), scale);
    }
  }

 private:
  static float magnitude_of(float value) {
    return std::isnan(value) ? std::numeric_limits<float>::infinity() : std::abs(value);
  }

  void split_group(std::span<float> values, std::span<float> left, float scale) {
    const size_t n = values.size(), k = chosen_of(n);
    for (size_t i = 0; i < n; ++i) values[i] += scale * left[i];
    if (k == n) {
      std::ranges::fill(left, 0.0f);
      return;
    }
    for (size_t i = 0; i < n; ++i) magnitudes_[i] = magnitude_of(values[i]);
    const auto at = magnitudes_.begin() + static_cast<std::ptrdiff_t>(k - 1);
    std::nth_element(magnitudes_.begin(), at, magnitudes_.begin() + static_cast<std::ptrdiff_t>(n), std::greater<>());
    const float least = *at;
    // Of those that are equal to the least the first ones, so that it is k of them.
    size_t above = 0;
    for (size_t i = 0; i < n; ++i) above += magnitude_of(values[i]) > least;
    size_t ties = k - above;
    for (size_t i = 0; i < n; ++i) {
      const float magnitude = magnitude_of(values[i]);
      const bool stays = magnitude > least || (magnitude == least && ties > 0);
      if (stays && magnitude == least) --ties;
      left[i] = stays ? 0.0f : values[i];
      if (!stays) values[i] = 0;
    }
  }

  size_t group_;
  double share_;
  std::vector<float> magnitudes_;
};

}  // namespace d5
