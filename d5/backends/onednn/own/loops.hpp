// SPDX-License-Identifier: Apache-2.0
// The inner loops of our own kernels. The files in loops/ are compiled once for each instruction set, in a namespace of
// its own (D5_ISA); which set is used is decided at run time. Functions take elements of every type as they lie in
// memory and convert them in registers, so that every loop serves every type; sums are of f32, in f32.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace d5::onednn::own {

// What a tile of intermediate results holds: a few of them fit the first cache.
inline constexpr int64_t tile_elements = 1024;
// Dropout decides on so many elements at once, at most.
inline constexpr int64_t most_together = 64;

// Elements one behind the other, to be read and to be written. `streamed` stores pass the caches by: fence() before
// anyone else reads them. Narrow types are rounded to nearest even; a bool is 0 or 1.
enum class Element : uint8_t { f32, bf16, f16, boolean };
struct Values {
  const void* data;
  Element type = Element::f32;
};
struct Place {
  void* data;
  Element type = Element::f32;
  bool streamed = false;
};

// out[i] = f(in[0][i], in[1][i], ...). `out` may be one of `in`.
using TileFunction = void (*)(const Values* in, const Place& out, int64_t n, const float* parameters);

// An elementwise operator: its value, and for each input what reaches its gradient: a function of inputs and dy. Null:
// no gradient.
struct TileFunctions {
  const char* op;
  int inputs;
  TileFunction value;
  TileFunction gradients[3];
  unsigned reads = 7;  // bit i: the gradients read input i
};

// Reductions of one number (sums also of magnitudes and of squares), and those that carry a second one: log_sum_exp the
// maximum and the sum relative to it, ties how many elements have the extreme value, product_zeros the product of what
// is not zero and the number of zeros.
enum class Reduce {
  sum,
  product,
  max,
  min,
  sum_of_magnitudes,
  sum_of_squares,
  log_sum_exp,
  max_ties,
  min_ties,
  product_zeros
};
constexpr bool is_pair(Reduce how) { return how >= Reduce::log_sum_exp; }
constexpr size_t pair_index(Reduce how) { return static_cast<size_t>(how) - static_cast<size_t>(Reduce::log_sum_exp); }

// A line of n elements that is written past the caches while the next one is read: y = (x - shift) factor + term. Where
// y is null there is none; it begins at a whole line of the caches, and n fills whole ones.
struct LineBefore {
  float* y = nullptr;
  const float* x = nullptr;
  float shift = 0, factor = 1, term = 0;
};
// The same of a gradient: dx = rstd (dy gain - a - xhat b), all elements with one gain.
struct GradientBefore {
  float* dx = nullptr;
  const float *x = nullptr, *dy = nullptr;
  float mean = 0, rstd = 1, a = 0, b = 0, gain = 1;
};

// Rows that take turns, a vector of each: so memory is read and written all the time, and what belongs to their
// elements is loaded once for all of them. What is written begins at whole lines of the caches and passes them by.
inline constexpr int rows_in_turn = 4;
struct RowsRead {
  std::array<const float*, rows_in_turn> x, ahead;  // ahead: lines that are read soon and fetched meanwhile
  std::array<float, rows_in_turn> origin;
};
struct RowsWritten {  // y = (x - mean) rstd gain + bias; bias may be null
  std::array<float*, rows_in_turn> y;
  std::array<const float*, rows_in_turn> x;
  std::array<float, rows_in_turn> mean, rstd;
  const float *gain, *bias;
};
struct GradientRows {  // dx = rstd (dy gain - a - xhat b); where wanted dgain += dy xhat and dbias += dy
  std::array<float*, rows_in_turn> dx;
  std::array<const float*, rows_in_turn> x, dy;
  std::array<float, rows_in_turn> mean, rstd, a, b;
  const float* gain;
  float *dgain, *dbias;
};

// A row of columns that is written past the caches: y = x factor, or (x - top) - term where there is no factor. Lines
// are as those of LineBefore.
struct ColumnsBefore {
  float* y = nullptr;
  const float *x = nullptr, *factor = nullptr, *top = nullptr, *term = nullptr;
};

struct ChannelLoops;  // channel_loops.hpp

struct Loops {
  const char* isa;
  const ChannelLoops* channels;

  struct Table {
    const TileFunctions* rows;
    const size_t& count;
  } functions[4];

  void (*convert)(const Values& from, const Place& to, int64_t n);
  void (*fill)(float*, float, int64_t n);
  void (*stream)(void* to, const void* from, int64_t bytes);  // a copy past the caches
  void (*fence)();

  // By Reduce: of a line, of results on the way, and sums[i] = sums[i] (+) x[i] (+) x[stride + i] (+) ... of so many
  // rows.
  float (*reduce[6])(const float* x, int64_t n);
  void (*merge[6])(float* sums, const float* more, int64_t n);
  void (*merge_rows[6])(float* sums, const float* x, int64_t stride, int64_t rows, int64_t n);
  // By pair_index: the pairs of elements of so many rows taken in, and that of a whole line.
  void (*merge_pairs[4])(float* first, float* second, const float* x, int64_t stride, int64_t rows, int64_t n);
  void (*reduce_pair[4])(const float* x, int64_t n, float pair[2]);
  float (*dot)(const float* a, const float* b, int64_t n);

  // Lines of n elements.
  // y = exp(x - top), where it is wanted, and their sum. Meanwhile the n elements from `ahead` on are fetched, and the
  // line before is written.
  float (*exponentials)(const float* x, float top, float* y, int64_t n, const float* ahead, const LineBefore&);
  // A row of columns: sum += exp(x - top), which also takes the place of x where `replaces`. Meanwhile the n elements
  // from `ahead` on are fetched, and a row before is written.
  void (*column_exponentials)(float* x, const float* top, float* sum, bool replaces, int64_t n, const float* ahead,
                              const ColumnsBefore&);
  void (*scale)(const Place& y, const float* x, float factor, float term, int64_t n);  // y = factor x + term
  // The sums of x - origin and of its square. Where a line before is written, the n elements from `ahead` on are
  // fetched.
  void (*moments)(const float* x, float origin, int64_t n, float sums[2], const float* ahead, const LineBefore&);
  void (*moments_in_turn)(const RowsRead&, const RowsWritten& before, int64_t n, float sums[rows_in_turn][2]);
  // y = (x - mean) rstd gain + bias; bias may be null. Shared: all elements have the same gain and bias; the n elements
  // from `ahead` on are fetched unless it is null.
  void (*normalize)(const Place& y, const float* x, float mean, float rstd, const float* gain, const float* bias,
                    int64_t n);
  void (*normalize_shared)(const Place& y, const float* x, float mean, float rstd, float gain, float bias, int64_t n,
                           const float* ahead);
  // The sums over a line of g = dy gain, and of g xhat. Without a gain g = dy.
  void (*normalize_sums)(const float* x, const float* dy, float mean, float rstd, const float* gain, int64_t n,
                         float sums[2], const float* ahead_x, const float* ahead_dy, const GradientBefore&);
  // dx = rstd (dy gain - a - xhat b); where wanted dgain += dy xhat and dbias += dy.
  void (*normalize_gradient)(const Place& dx, const float* x, const float* dy, float mean, float rstd,
                             const float* gain, float a, float b, float* dgain, float* dbias, int64_t n);
  void (*normalize_gradient_shared)(const Place& dx, const float* x, const float* dy, float mean, float rstd,
                                    float gain, float a, float b, int64_t n);
  void (*normalize_gradient_in_turn)(const GradientRows&, int64_t n);
  // Softmax: dx = y (dy - dot); its logarithm: dx = dy - exp(y) sum
  void (*softmax_gradient)(const Place& dx, const float* y, const float* dy, float dot, int64_t n);
  void (*log_softmax_gradient)(const Place& dx, const float* y, const float* dy, float sum, int64_t n);

  // to[r, c] = from[c, r] for elements of 2 and 4 bytes; strides in elements. Past the caches where lines are whole.
  void (*transpose_2)(uint16_t* to, int64_t to_stride, const uint16_t* from, int64_t from_stride, int64_t rows,
                      int64_t columns);
  void (*transpose_4)(uint32_t* to, int64_t to_stride, const uint32_t* from, int64_t from_stride, int64_t rows,
                      int64_t columns, bool streamed);
  // y = factor x where word first + i of this stream is at least `least`, else 0: words are the halves, the lower
  // first, of the numbers of core/rng.hpp. `first` is a multiple of four, n at most a tile. Bits tell who stays; they
  // fill multiples of most_together. `keep` does the same by such bits.
  void (*drop)(const Values& x, const Place& y, uint32_t* bits, float factor, uint64_t seed, uint64_t stream,
               uint64_t first, uint32_t least, int64_t n);
  void (*keep)(const Values& x, const Place& y, const uint32_t* bits, float factor, int64_t n);
};

// The row of an elementwise operator, null where there is none.
const TileFunctions* find_functions(std::string_view op);

// Those of the widest instructions that this processor and system can run.
const Loops& loops();

}  // namespace d5::onednn::own
