// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "d5/backends/onednn/own/attention_loops.hpp"
#include "d5/backends/onednn/own/loops/joined.hpp"

namespace d5::onednn::own::D5_ISA {
namespace {

// Sums of a tile stay in registers, beside a row of the panel and one number of the left factor.
#if defined(__AVX512F__)
constexpr int most_rows = 12, most_vectors = 2;
#elif defined(__AVX__)
constexpr int most_rows = 6, most_vectors = 2;
#else
constexpr int most_rows = 2, most_vectors = 4;
#endif
constexpr int64_t panel = most_vectors * width;

template <int rows, int vectors>
void tile(const LeftFactor& a, const float* b, int64_t b_row, float* y, int64_t y_stride, int64_t depth, bool adds) {
  Vector sums[rows][vectors] = {};
  const int64_t row = a.row, column = a.column;
  const float* x = a.data;
  for (int64_t k = 0; k < depth; ++k, x += column, b += b_row) {
    Vector v[vectors];
#pragma GCC unroll 16
    for (int j = 0; j < vectors; ++j) v[j] = load_vector(b + j * width);
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 16
      for (int j = 0; j < vectors; ++j) sums[r][j] += x[r * row] * v[j];
  }
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 16
    for (int j = 0; j < vectors; ++j) {
      float* to = y + r * y_stride + j * width;
      store_vector(to, adds ? load_vector(to) + sums[r][j] : sums[r][j]);
    }
}

using Tile = void (*)(const LeftFactor&, const float*, int64_t, float*, int64_t, int64_t, bool);
template <int vectors, size_t... rows>
constexpr Tile chosen_tile(size_t count, std::index_sequence<rows...>) {
  constexpr Tile tiles[] = {tile<rows + 1, vectors>...};
  return tiles[count - 1];
}
template <size_t... vectors>
constexpr Tile chosen_tile(size_t rows, size_t count, std::index_sequence<vectors...>) {
  constexpr auto all_rows = std::make_index_sequence<most_rows>();
  const Tile tiles[] = {chosen_tile<vectors + 1>(rows, all_rows)...};
  return tiles[count - 1];
}

// Tiles of about the same height go down a panel, which stays in the first cache.
void product(const LeftFactor& a, const Panels& b, float* y, int64_t y_stride, int64_t m, int64_t n, int64_t depth,
             bool adds) {
  for (int64_t c = 0; c < n; c += panel) {
    const int64_t vectors = n - c < panel ? (n - c + width - 1) / width : most_vectors;
    for (int64_t i = 0, tiles = (m + most_rows - 1) / most_rows; tiles > 0; --tiles) {
      const int64_t rows = (m - i + tiles - 1) / tiles;
      chosen_tile(static_cast<size_t>(rows), static_cast<size_t>(vectors), std::make_index_sequence<most_vectors>())(
          {a.data + i * a.row, a.row, a.column}, b.data + c / panel * b.stride, b.row, y + i * y_stride + c, y_stride,
          depth, adds);
      i += rows;
    }
  }
}

void pack(float* to, int64_t stride, const float* from, int64_t from_stride, int64_t rows, int64_t columns) {
  for (int64_t c = 0; c < columns; c += panel, to += stride) {
    const int64_t count = columns - c < panel ? columns - c : panel;
    for (int64_t r = 0; r < rows; ++r) {
      const float* x = from + r * from_stride + c;
      for (int64_t j = 0; j < panel; j += width) {
        const Vector v = j + width <= count ? load_vector(x + j) : j < count ? load_part(x + j, count - j) : Vector{};
        store_vector(to + r * panel + j, v);
      }
    }
  }
}

struct NoMask {
  template <class At>
  D5_INLINE static Vector of(Vector x, const float*, At) {
    return x;
  }
};
struct AddedMask {
  template <class At>
  D5_INLINE static Vector of(Vector x, const float* mask, At at) {
    return x + at(mask);
  }
};
struct HidingMask {
  template <class At>
  D5_INLINE static Vector of(Vector x, const float* mask, At at) {
    return at(mask) != 0.0f ? x : Vector{} - __builtin_inff();
  }
};

template <class Mask, bool capped>
void masked(float* x, const Values& mask, float cap, float* slope, int64_t n) {
  alignas(64) float room[block_elements];
  const float inverse_cap = capped ? 1.0f / cap : 0.0f;
  for (int64_t i = 0; i < n; i += block_elements) {
    const int64_t count = n - i < block_elements ? n - i : block_elements;
    const float* values = room;
    if (mask.type != Element::f32)
      widen(mask, i, count, room);
    else if (mask.data)
      values = static_cast<const float*>(mask.data) + i;
    float *scores = x + i, *slopes = slope ? slope + i : nullptr;
    walk_line(
        count, [&](auto at, int) __attribute__((always_inline)) {
          Vector s = at(scores);
          if (capped) {
            const Vector z = s * inverse_cap;
            s = cap * tanh_of(z);
            if (slopes) {
              const Vector e = exp_of(-2.0f * absolute(z)), q = 1.0f / (1.0f + e);
              at.put(slopes, 4.0f * e * q * q);
            }
          }
          s = Mask::of(s, values, at);
          at.put(scores, s);
        });
  }
}

void mask_scores(float* x, const Values& mask, float cap, float* slope, int64_t n) {
  if (!mask.data) return (cap > 0 ? masked<NoMask, true> : masked<NoMask, false>)(x, {}, cap, slope, n);
  if (mask.type == Element::boolean)
    return (cap > 0 ? masked<HidingMask, true> : masked<HidingMask, false>)(x, mask, cap, slope, n);
  return (cap > 0 ? masked<AddedMask, true> : masked<AddedMask, false>)(x, mask, cap, slope, n);
}

// Rows are gone through in whole vectors, counted from their beginning: room for those is there.
constexpr int64_t begin_of(int64_t key) { return key / width * width; }
constexpr int64_t end_of(int64_t key) { return begin_of(key + width - 1); }

void fill_vectors(float* row, int64_t first, int64_t last) {
  for (int64_t j = first; j < last; j += width) store_vector(row + j, Vector{});
}
void hide_unseen(const ScoreRows& rows, float* row, int64_t begin, int64_t end) {
  const int64_t first = begin_of(rows.of.first), last = end_of(rows.of.last);
  fill_vectors(row, first, begin == end ? last : begin);
  if (begin != end) fill_vectors(row, end, last);
}
// What is not seen of the first and the last vector becomes -infinity.
void hide_ends(float* row, KeyRange seen) {
  Integers lane{};
  for (int k = 0; k < width; ++k) lane[k] = k;
  const auto hide = [=](int64_t at, int64_t first, int64_t last) {
    const Integers unseen = (lane < static_cast<int32_t>(first - at)) | (lane >= static_cast<int32_t>(last - at));
    store_vector(row + at, unseen ? Vector{} - __builtin_inff() : load_vector(row + at));
  };
  const int64_t begin = begin_of(seen.first), end = end_of(seen.last);
  if (begin < seen.first) hide(begin, seen.first, begin + width);
  if (end > seen.last) hide(end - width, begin, seen.last);
}

// The whole vectors of a row that hold something that is seen.
struct SeenVectors {
  float* row;
  int64_t begin, n;
};
SeenVectors seen_vectors(const ScoreRows& rows, int64_t i) {
  const KeyRange seen = rows.seen[i];
  float* row = rows.data + i * rows.stride;
  return seen.empty() ? SeenVectors{row, 0, 0}
                      : SeenVectors{row, begin_of(seen.first), end_of(seen.last) - begin_of(seen.first)};
}

// Some rows at once, as many as stay in the first cache: what is joined across the lanes of one is not waited for.
constexpr int64_t most_together = 16;
template <class F>
D5_INLINE void each_few_rows(const ScoreRows& rows, F&& f) {
  const int64_t few = 4 * tile_elements / (rows.of.size() + 1);
  const int64_t count = few < 1 ? 1 : few > most_together ? most_together : few;
  for (int64_t i = 0; i < rows.count; i += count) f(i, i + count < rows.count ? i + count : rows.count);
}

void softmax(const ScoreRows& rows) {
  each_few_rows(
      rows, [&](int64_t first, int64_t last) __attribute__((always_inline)) {
        float tops[most_together], factors[most_together];
        for (int64_t i = first; i < last; ++i) {
          const auto [row, begin, n] = seen_vectors(rows, i);
          if (n > 0) hide_ends(row, rows.seen[i]);
          tops[i - first] = reduce<Largest>(row + begin, n);
        }
        for (int64_t i = first; i < last; ++i) {
          const auto [row, begin, n] = seen_vectors(rows, i);
          float* x = row + begin;
          // Where nothing is seen all of them are -infinity, relative to 0.
          const float top = tops[i - first], base = top == -__builtin_inff() ? 0.0f : top;
          Totals<Plus> sum;
          walk_line(
              n,
              [=](auto at) __attribute__((always_inline)) {
                const Vector d = at(x) - base;
                return d < -87.0f ? Vector{} : exp_below(d);
              },
              [&](auto at, int r, Vector e) __attribute__((always_inline)) {
                sum.add(r, at, e);
                at.put(x, e);
              });
          const float total = sum.joined();
          factors[i - first] = total == 0.0f ? 0.0f : 1.0f / total;
        }
        for (int64_t i = first; i < last; ++i) {
          const auto [row, begin, n] = seen_vectors(rows, i);
          float* x = row + begin;
          const float factor = factors[i - first];
          walk_line(
              n, [=](auto at, int) __attribute__((always_inline)) { at.put(x, at(x) * factor); });
          hide_unseen(rows, row, begin, begin + n);
        }
      });
}

// What has no weight has no gradient, whatever its value is.
void softmax_gradient(const ScoreRows& rows, const float* p, float scale) {
  each_few_rows(
      rows, [&](int64_t first, int64_t last) __attribute__((always_inline)) {
        float dots[most_together];
        for (int64_t i = first; i < last; ++i) {
          const auto [row, begin, n] = seen_vectors(rows, i);
          const float *dx = row + begin, *y = p + i * rows.stride + begin;
          dots[i - first] = joined_line<Plus>(
              n, [=](auto at) __attribute__((always_inline)) {
                const Vector weight = at(y), found = at(dx);
                return weight != 0.0f ? weight * found : Vector{};
              });
        }
        for (int64_t i = first; i < last; ++i) {
          const auto [row, begin, n] = seen_vectors(rows, i);
          float* dx = row + begin;
          const float *y = p + i * rows.stride + begin, dot = dots[i - first];
          walk_line(
              n, [=](auto at, int) __attribute__((always_inline)) {
                const Vector weight = at(y), found = at(dx);
                at.put(dx, weight != 0.0f ? (scale * weight) * (found - dot) : Vector{});
              });
          hide_unseen(rows, row, begin, begin + n);
        }
      });
}

}  // namespace

const AttentionLoops attention_table = {panel, width, most_rows, pack, product, mask_scores, softmax, softmax_gradient};

}  // namespace d5::onednn::own::D5_ISA
