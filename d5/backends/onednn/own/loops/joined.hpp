// SPDX-License-Identifier: Apache-2.0
// Reductions of a tile: `lanes` partial results side by side, which are joined at the end.
#pragma once

#include "d5/backends/onednn/own/loops/functions.hpp"

namespace d5::onednn::own::D5_ISA {

constexpr int lanes = 64;

struct Plus {
  static constexpr float start = 0.0f;
  D5_INLINE static float join(float s, float x) { return s + x; }
};
struct Times {
  static constexpr float start = 1.0f;
  D5_INLINE static float join(float s, float x) { return s * x; }
};
struct Largest {  // NaN stays
  static constexpr float start = -__builtin_inff();
  D5_INLINE static float join(float s, float x) { return x > s || x != x ? x : s; }
};
struct Smallest {
  static constexpr float start = __builtin_inff();
  D5_INLINE static float join(float s, float x) { return x < s || x != x ? x : s; }
};

// Joins f(0), ..., f(n - 1).
template <class Join, class F>
D5_INLINE float joined(int64_t n, F&& f) {
  float sums[lanes];
  for (int j = 0; j < lanes; ++j) sums[j] = Join::start;
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (int j = 0; j < lanes; ++j) sums[j] = Join::join(sums[j], f(i + j));
  for (int j = 0; i < n; ++i, ++j) sums[j] = Join::join(sums[j], f(i));
  for (int width = lanes / 2; width > 0; width /= 2)
    for (int j = 0; j < width; ++j) sums[j] = Join::join(sums[j], sums[j + width]);
  return sums[0];
}

template <class Join>
float reduce(const float* x, int64_t n) {
  return joined<Join>(n, [x](int64_t i) { return x[i]; });
}

void log_sum_exp_merge(float* top, float* sum, const float* x, int64_t n);
void max_ties_merge(float* top, float* ties, const float* x, int64_t n);
void min_ties_merge(float* low, float* ties, const float* x, int64_t n);
void product_zeros_merge(float* product, float* zeros, const float* x, int64_t n);
void log_sum_exp_pair(const float* x, int64_t n, float pair[2]);
void max_ties_pair(const float* x, int64_t n, float pair[2]);
void min_ties_pair(const float* x, int64_t n, float pair[2]);
void product_zeros_pair(const float* x, int64_t n, float pair[2]);

}  // namespace d5::onednn::own::D5_ISA
