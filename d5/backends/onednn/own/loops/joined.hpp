// SPDX-License-Identifier: Apache-2.0
// Reductions of a line: `lanes` partial results side by side, which are joined at the end.
#pragma once

#include <utility>

#include "d5/backends/onednn/own/loops/functions.hpp"

namespace d5::onednn::own::D5_ISA {

constexpr int lanes = 64;

// `taken` is what becomes of an element before it is joined.
struct Plus {
  static constexpr float start = 0.0f;
  D5_INLINE static Vector taken(Vector x) { return x; }
  D5_INLINE static Vector join(Vector s, Vector x) { return s + x; }
};
struct PlusMagnitude : Plus {
  D5_INLINE static Vector taken(Vector x) { return absolute(x); }
};
struct PlusSquare : Plus {
  D5_INLINE static Vector taken(Vector x) { return x * x; }
};
struct Times {
  static constexpr float start = 1.0f;
  D5_INLINE static Vector taken(Vector x) { return x; }
  D5_INLINE static Vector join(Vector s, Vector x) { return s * x; }
};
struct Largest {  // NaN stays
  static constexpr float start = -__builtin_inff();
  D5_INLINE static Vector taken(Vector x) { return x; }
  D5_INLINE static Vector join(Vector s, Vector x) { return x != x ? x : larger(x, s); }
};
struct Highest : Largest {  // of what is a number
  D5_INLINE static Vector join(Vector s, Vector x) { return larger(x, s); }
};
struct Smallest {
  static constexpr float start = __builtin_inff();
  D5_INLINE static Vector taken(Vector x) { return x; }
  D5_INLINE static Vector join(Vector s, Vector x) { return x != x ? x : smaller(x, s); }
};

constexpr int registers = lanes / width;

// Where a function of lines is: at a whole vector, or at the last elements of a line. at(x) are those of x.
struct VectorAt {
  int64_t i;
  D5_INLINE Vector operator()(const float* x) const { return load_vector(x + i); }
  D5_INLINE void put(float* x, Vector v) const { store_vector(x + i, v); }
  D5_INLINE void stream(float* x, Vector v) const {
    stream_vector(reinterpret_cast<char*>(x + i), reinterpret_cast<const char*>(&v));
  }
  D5_INLINE void prefetch(const float* x) const { __builtin_prefetch(x + i, 0, 2); }
  D5_INLINE void fetch(const float* x) const { __builtin_prefetch(x + i, 0, 3); }  // into the first cache
  D5_INLINE Vector rest_is(float, Vector v) const { return v; }
};
struct PartAt {
  int64_t i, count;
  D5_INLINE Vector operator()(const float* x) const { return load_part(x + i, count); }
  D5_INLINE void put(float* x, Vector v) const { store_part(x + i, count, v); }
  D5_INLINE void stream(float* x, Vector v) const { put(x, v); }
  D5_INLINE void prefetch(const float*) const {}
  D5_INLINE void fetch(const float*) const {}
  D5_INLINE Vector rest_is(float value, Vector v) const { return with_rest(v, count, value); }
};

// Lane k joins lane k + half, again and again; shuffled in registers, because a row of a few thousand elements would
// wait for a detour through memory.
template <class Join, int half, size_t... k>
D5_INLINE float across(Vector v, std::index_sequence<k...> lane) {
  const Vector joined = Join::join(v, __builtin_shufflevector(v, v, ((k + half) % width)...));
  if constexpr (half > 1)
    return across<Join, half / 2>(joined, lane);
  else
    return joined[0];
}
template <class Join>
D5_INLINE float across(Vector v) {
  return across<Join, width / 2>(v, std::make_index_sequence<width>());
}

template <class Join>
struct Totals {
  Vector each[registers];

  D5_INLINE Totals() {
    for (Vector& v : each) v = Vector{} + Join::start;
  }
  D5_INLINE void add(int r, Vector v) { each[r] = Join::join(each[r], v); }
  template <class At>
  D5_INLINE void add(int r, At at, Vector v) {
    add(r, at.rest_is(Join::start, v));
  }
  D5_INLINE Vector folded() {
    for (int half = registers / 2; half > 0; half /= 2)
      for (int r = 0; r < half; ++r) add(r, each[r + half]);
    return each[0];
  }
  D5_INLINE float joined() { return across<Join>(folded()); }
};

// f(at, register) over a line: blocks of `lanes`, then vectors, then what is left.
template <class F>
D5_INLINE void walk_line(int64_t n, F&& f) {
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
#pragma GCC unroll 16
    for (int r = 0; r < registers; ++r) f(VectorAt{i + r * width}, r);
  }
  for (; i + width <= n; i += width) f(VectorAt{i}, 0);
  if (i < n) f(PartAt{i, n - i}, 0);
}

// The same in two steps, f(at) of a whole block and then g(at, register, f(at)): what g stores need not be thought of
// as what the next f reads.
template <class F, class G>
D5_INLINE void walk_line(int64_t n, F&& f, G&& g) {
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    Vector found[registers];
#pragma GCC unroll 16
    for (int r = 0; r < registers; ++r) found[r] = f(VectorAt{i + r * width});
#pragma GCC unroll 16
    for (int r = 0; r < registers; ++r) g(VectorAt{i + r * width}, r, found[r]);
  }
  for (; i + width <= n; i += width) g(VectorAt{i}, 0, f(VectorAt{i}));
  if (i < n) g(PartAt{i, n - i}, 0, f(PartAt{i, n - i}));
}

// Joins f(at) for all elements of a line.
template <class Join, class F>
D5_INLINE float joined_line(int64_t n, F&& f) {
  Totals<Join> totals;
  walk_line(
      n, [&](auto at, int r) __attribute__((always_inline)) { totals.add(r, at, f(at)); });
  return totals.joined();
}
template <class Join>
float reduce(const float* x, int64_t n) {
  return joined_line<Join>(n, [x](auto at) { return Join::taken(at(x)); });
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
      if (i < count) store_part(block + i, count - i, f(PartAt{at + i, count - i}));
      put(out, at, count, block);
    }
    return;
  }
  float* y = static_cast<float*>(out.data);
  int64_t i = 0;
  if (out.streamed) {
    if (const int64_t before = (-reinterpret_cast<intptr_t>(y) & (vector_bytes - 1)) / 4; before > 0) {
      i = before < n ? before : n;
      store_part(y, i, f(PartAt{0, i}));
    }
#pragma GCC unroll 4
    for (; i + width <= n; i += width) {
      const Vector v = f(VectorAt{i});
      stream_vector(reinterpret_cast<char*>(y + i), reinterpret_cast<const char*>(&v));
    }
  } else {
    for (; i + width <= n; i += width) store_vector(y + i, f(VectorAt{i}));
  }
  if (i < n) store_part(y + i, n - i, f(PartAt{i, n - i}));
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
