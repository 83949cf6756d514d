// SPDX-License-Identifier: Apache-2.0
// Reductions of a line: `lanes` partial results side by side, which are joined at the end.
#pragma once

#include <type_traits>

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

D5_INLINE void store_vector(float* x, Vector v) { __builtin_memcpy(x, &v, sizeof v); }

// Where a function of lines is: at the elements of a vector, or at one element. at(x) are those of x.
struct VectorAt {
  int64_t i;
  D5_INLINE Vector operator()(const float* x) const { return load_vector(x + i); }
  D5_INLINE void put(float* x, Vector v) const { store_vector(x + i, v); }
};
struct ElementAt {
  int64_t i;
  D5_INLINE float operator()(const float* x) const { return x[i]; }
  D5_INLINE void put(float* x, float v) const { x[i] = v; }
};

template <class Join>
D5_INLINE float across(Vector v) {
  float sums[width];
  store_vector(sums, v);
  for (int half = width / 2; half > 0; half /= 2)
    for (int k = 0; k < half; ++k) sums[k] = Join::join(sums[k], sums[k + half]);
  return sums[0];
}

template <class Join>
struct Totals {
  Vector each[registers];

  D5_INLINE Totals() {
    for (Vector& v : each) v = Vector{} + Join::start;
  }
  D5_INLINE void add(int r, Vector v) { each[r] = Join::join(each[r], v); }
  D5_INLINE Vector folded() {
    for (int half = registers / 2; half > 0; half /= 2)
      for (int r = 0; r < half; ++r) add(r, each[r + half]);
    return each[0];
  }
  D5_INLINE float joined() { return across<Join>(folded()); }
};

// f(VectorAt) and f(ElementAt) over a line: blocks of `lanes`, then vectors, then elements.
template <class F>
D5_INLINE void walk_line(int64_t n, F&& f) {
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
#pragma GCC unroll 16
    for (int r = 0; r < registers; ++r) f(VectorAt{i + r * width}, r);
  }
  for (; i + width <= n; i += width) f(VectorAt{i}, 0);
  for (; i < n; ++i) f(ElementAt{i}, 0);
}

// Joins f(at) for all elements of a line.
template <class Join, class F>
D5_INLINE float joined_line(int64_t n, F&& f) {
  Totals<Join> totals;
  float rest = Join::start;
  walk_line(n, [&](auto at, int r) {
    if constexpr (std::is_same_v<decltype(at), ElementAt>)
      rest = Join::join(rest, f(at));
    else
      totals.add(r, f(at));
  });
  return Join::join(totals.joined(), rest);
}
template <class Join>
float reduce(const float* x, int64_t n) {
  return joined_line<Join>(n, [x](auto at) { return at(x); });
}

// Joins f(0), ..., f(n - 1), a function of numbers.
template <class Join, class F>
D5_INLINE float joined(int64_t n, F&& f) {
  Totals<Join> totals;
  float rest = Join::start;
  alignas(64) float block[lanes];
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    D5_EACH_OF(k, lanes) block[k] = f(i + k);
    for (int r = 0; r < registers; ++r) totals.add(r, load_vector(block + r * width));
  }
  for (; i < n; ++i) rest = Join::join(rest, f(i));
  return Join::join(totals.joined(), rest);
}

// out[i] = f(at) over a line.
template <class F>
D5_INLINE void each_at(const Place& out, int64_t n, F&& f) {
  if (out.type != Element::f32) {
    alignas(64) float block[block_elements];
    int64_t count = first_count(out, n);
    for (int64_t at = 0; at < n; at += count, count = n - at < block_elements ? n - at : block_elements) {
      int64_t i = 0;
      for (; i + width <= count; i += width) store_vector(block + i, f(VectorAt{at + i}));
      for (; i < count; ++i) block[i] = f(ElementAt{at + i});
      put(out, at, count, block);
    }
    return;
  }
  float* y = static_cast<float*>(out.data);
  int64_t i = 0;
  if (out.streamed) {
    for (; i < n && reinterpret_cast<intptr_t>(y + i) % vector_bytes != 0; ++i) y[i] = f(ElementAt{i});
#pragma GCC unroll 4
    for (; i + width <= n; i += width) {
      const Vector v = f(VectorAt{i});
      stream_vector(reinterpret_cast<char*>(y + i), reinterpret_cast<const char*>(&v));
    }
  } else {
    for (; i + width <= n; i += width) store_vector(y + i, f(VectorAt{i}));
  }
  for (; i < n; ++i) y[i] = f(ElementAt{i});
}

void log_sum_exp_merge(float* top, float* sum, const float* x, int64_t stride, int64_t rows, int64_t n);
void max_ties_merge(float* top, float* ties, const float* x, int64_t stride, int64_t rows, int64_t n);
void min_ties_merge(float* low, float* ties, const float* x, int64_t stride, int64_t rows, int64_t n);
void product_zeros_merge(float* product, float* zeros, const float* x, int64_t stride, int64_t rows, int64_t n);
void log_sum_exp_pair(const float* x, int64_t n, float pair[2]);
void max_ties_pair(const float* x, int64_t n, float pair[2]);
void min_ties_pair(const float* x, int64_t n, float pair[2]);
void product_zeros_pair(const float* x, int64_t n, float pair[2]);

}  // namespace d5::onednn::own::D5_ISA
