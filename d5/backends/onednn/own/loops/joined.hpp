// SPDX-License-Identifier: Apache-2.0
// Reductions of a tile: `lanes` partial results side by side, which are joined at the end.
#pragma once

#include "d5/backends/onednn/own/loops/functions.hpp"

namespace d5::onednn::own::D5_ISA {

constexpr int lanes = 64;

struct Plus {
  static constexpr float start = 0.0f;
  template <class T>
  D5_INLINE static T join(T s, T x) {
    return s + x;
  }
};
struct Times {
  static constexpr float start = 1.0f;
  template <class T>
  D5_INLINE static T join(T s, T x) {
    return s * x;
  }
};
struct Largest {  // NaN stays
  static constexpr float start = -__builtin_inff();
  template <class T>
  D5_INLINE static T join(T s, T x) {
    return ((x > s) | (x != x)) ? x : s;
  }
};
struct Smallest {
  static constexpr float start = __builtin_inff();
  template <class T>
  D5_INLINE static T join(T s, T x) {
    return ((x < s) | (x != x)) ? x : s;
  }
};

// A register of the widest kind; `lanes` sums are a few of them.
#if defined(__AVX512F__)
constexpr int width = 16;
#elif defined(__AVX__)
constexpr int width = 8;
#else
constexpr int width = 4;
#endif
constexpr int registers = lanes / width;
using Vector [[gnu::vector_size(width * sizeof(float))]] = float;
D5_INLINE Vector load_vector(const float* x) {
  Vector v;
  __builtin_memcpy(&v, x, sizeof v);
  return v;
}

// Joins f(0), ..., f(n - 1), where fill(i, block) puts f(i), ..., f(i + lanes - 1) into a block.
template <class Join, class Fill, class F>
D5_INLINE float joined_blocks(int64_t n, Fill&& fill, F&& f) {
  alignas(64) float sums[lanes];
  int64_t i = 0;
  if (n >= lanes) {
    Vector totals[registers];
    const float* first = fill(0);
    for (int r = 0; r < registers; ++r) totals[r] = load_vector(first + r * width);
    for (i = lanes; i + lanes <= n; i += lanes) {
      const float* block = fill(i);
#pragma GCC unroll 16
      for (int r = 0; r < registers; ++r) totals[r] = Join::join(totals[r], load_vector(block + r * width));
    }
    for (int r = 0; r < registers; ++r) __builtin_memcpy(sums + r * width, &totals[r], sizeof(Vector));
    for (int half = lanes / 2; half > 0; half /= 2)
      for (int k = 0; k < half; ++k) sums[k] = Join::join(sums[k], sums[k + half]);
  } else {
    sums[0] = Join::start;
  }
  float rest = Join::start;
  for (; i < n; ++i) rest = Join::join(rest, f(i));
  return Join::join(sums[0], rest);
}

template <class Join, class F>
D5_INLINE float joined(int64_t n, F&& f) {
  alignas(64) float block[lanes];
  const auto fill = [&](int64_t i) -> const float* {
    D5_EACH_OF(k, lanes) block[k] = f(i + k);
    return block;
  };
  return joined_blocks<Join>(n, fill, f);
}
template <class Join>
float reduce(const float* x, int64_t n) {
  return joined_blocks<Join>(
      n, [x](int64_t i) { return x + i; }, [x](int64_t i) { return x[i]; });
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
