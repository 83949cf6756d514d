// SPDX-License-Identifier: Apache-2.0
// The inner loops of our own kernels. The files in loops/ are compiled once for each instruction set, in a namespace of
// its own (D5_ISA); which set is used is decided at run time. All of them work on tiles of f32 that lie in the first
// cache: other types are converted on the way in and out, so that every loop serves every type and sums are f32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace d5::onednn::own {

inline constexpr int64_t tile_elements = 512;

// out[i] = f(in[0][i], in[1][i], ...). `out` may be one of `in`.
using TileFunction = void (*)(const float* const* in, float* out, int64_t n, const float* parameters);

// An elementwise operator: its value, and for each input what reaches its gradient: a function of inputs and dy. Null:
// no gradient.
struct TileFunctions {
  const char* op;
  int inputs;
  TileFunction value;
  TileFunction gradients[3];
  unsigned reads = 7;  // bit i: the gradients read input i
};

// Reductions of one number, and those that carry a second one: log_sum_exp the maximum and the sum relative to it, ties
// how many elements have the extreme value, product_zeros the product of what is not zero and the number of zeros.
enum class Reduce { sum, product, max, min, log_sum_exp, max_ties, min_ties, product_zeros };
constexpr bool is_pair(Reduce how) { return how >= Reduce::log_sum_exp; }
constexpr size_t pair_index(Reduce how) { return static_cast<size_t>(how) - static_cast<size_t>(Reduce::log_sum_exp); }

struct ChannelLoops;  // channel_loops.hpp

struct Loops {
  const char* isa;
  const ChannelLoops* channels;

  struct Table {
    const TileFunctions* rows;
    const size_t& count;
  } functions[4];

  // Narrow types to f32 and back, round to nearest even. A bool is 0 or 1.
  void (*from_bf16)(const uint16_t*, float*, int64_t n);
  void (*to_bf16)(const float*, uint16_t*, int64_t n);
  void (*from_f16)(const uint16_t*, float*, int64_t n);
  void (*to_f16)(const float*, uint16_t*, int64_t n);
  void (*from_bool)(const uint8_t*, float*, int64_t n);
  void (*to_bool)(const float*, uint8_t*, int64_t n);
  void (*fill)(float*, float, int64_t n);
  // A copy whose stores pass the caches by; fence() before anyone else reads it.
  void (*stream)(void* to, const void* from, int64_t bytes);
  void (*fence)();

  // By Reduce: of a tile, and sums[i] = sums[i] (+) x[i].
  float (*reduce[4])(const float* x, int64_t n);
  void (*merge[4])(float* sums, const float* x, int64_t n);
  // By pair_index: the pairs of a tile's elements taken in, and that of a whole tile.
  void (*merge_pairs[4])(float* first, float* second, const float* x, int64_t n);
  void (*reduce_pair[4])(const float* x, int64_t n, float pair[2]);
  float (*dot)(const float* a, const float* b, int64_t n);

  // Lines of n elements.
  float (*sum_of_squares)(const float* x, float mean, int64_t n);                // of x - mean
  float (*exponentials)(const float* x, float top, float* y, int64_t n);         // y = exp(x - top), and their sum
  void (*scale)(float* y, const float* x, float factor, float term, int64_t n);  // y = factor x + term
  // y = (x - mean) rstd gain + bias; gain and bias may be null.
  void (*normalize)(float* y, const float* x, float mean, float rstd, const float* gain, const float* bias, int64_t n);
  // The sums over a line of g = dy gain, and of g xhat; where wanted dgain += dy xhat and dbias += dy.
  void (*normalize_sums)(const float* x, const float* dy, float mean, float rstd, const float* gain, float* dgain,
                         float* dbias, int64_t n, float sums[2]);
  // dx = rstd (dy gain - a - xhat b)
  void (*normalize_gradient)(float* dx, const float* x, const float* dy, float mean, float rstd, const float* gain,
                             float a, float b, int64_t n);
  // Softmax: dx = y (dy - dot); its logarithm: dx = dy - exp(y) sum
  void (*softmax_gradient)(float* dx, const float* y, const float* dy, float dot, int64_t n);
  void (*log_softmax_gradient)(float* dx, const float* y, const float* dy, float sum, int64_t n);

  // to[r, c] = from[c, r] for elements of 2 and 4 bytes; strides in elements.
  void (*transpose_2)(uint16_t* to, int64_t to_stride, const uint16_t* from, int64_t from_stride, int64_t rows,
                      int64_t columns);
  void (*transpose_4)(uint32_t* to, int64_t to_stride, const uint32_t* from, int64_t from_stride, int64_t rows,
                      int64_t columns);
  // mask[i] = 1 where number first + i of this stream (core/rng.hpp), without its lowest 11 bits, is at least `least`,
  // else 0; `first` is even.
  void (*philox_mask)(float* mask, uint64_t seed, uint64_t stream, uint64_t first, uint64_t least, int64_t n);
};

// The row of an elementwise operator, null where there is none.
const TileFunctions* find_functions(std::string_view op);

// Those of the widest instructions that this processor and system can run.
const Loops& loops();

}  // namespace d5::onednn::own
