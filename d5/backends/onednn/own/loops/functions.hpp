// SPDX-License-Identifier: Apache-2.0
// From functions of numbers to functions of tiles. `p` are the operator's attributes (Parameters).
#pragma once

#include "d5/backends/onednn/own/loops/blocks.hpp"

namespace d5::onednn::own::D5_ISA {

void convert(const Values& from, const Place& to, int64_t n);

struct Parameters {  // a copy: the compiler need not fear that a store changes them
  float a = 0, b = 0, c = 0, d = 0;
  Parameters() = default;
  explicit Parameters(const float* p) : a(p[0]), b(p[1]), c(p[2]), d(p[3]) {}
};

// in[0] to in[inputs - 1] of a tile function.
template <int inputs, class F>
D5_INLINE void each_of(const Values* in, const Place& out, int64_t n, F&& f) {
  Values first[inputs];
  for (int k = 0; k < inputs; ++k) first[k] = in[k];
  each(first, out, n, f);
}

template <class F>
void unary_value(const Values* in, const Place& out, int64_t n, const float* parameters) {
  const Parameters p(parameters);
  each_of<1>(in, out, n, [&](auto& x, int64_t i) { return F::value(x[0][i], p); });
}
template <class F>
void unary_gradient(const Values* in, const Place& out, int64_t n, const float* parameters) {
  const Parameters p(parameters);
  each_of<2>(in, out, n, [&](auto& x, int64_t i) { return x[1][i] * F::slope(x[0][i], p); });
}
template <class F>
void binary_value(const Values* in, const Place& out, int64_t n, const float* parameters) {
  const Parameters p(parameters);
  each_of<2>(in, out, n, [&](auto& x, int64_t i) { return F::value(x[0][i], x[1][i], p); });
}
template <class F>
void binary_gradient_a(const Values* in, const Place& out, int64_t n, const float* parameters) {
  const Parameters p(parameters);
  each_of<3>(in, out, n, [&](auto& x, int64_t i) { return F::slope_a(x[0][i], x[1][i], x[2][i], p); });
}
template <class F>
void binary_gradient_b(const Values* in, const Place& out, int64_t n, const float* parameters) {
  const Parameters p(parameters);
  each_of<3>(in, out, n, [&](auto& x, int64_t i) { return F::slope_b(x[0][i], x[1][i], x[2][i], p); });
}
template <class F>
void ternary_value(const Values* in, const Place& out, int64_t n, const float*) {
  each_of<3>(in, out, n, [&](auto& x, int64_t i) { return F::value(x[0][i], x[1][i], x[2][i]); });
}
template <class F, int input>
void ternary_gradient(const Values* in, const Place& out, int64_t n, const float*) {
  each_of<4>(in, out, n,
             [&](auto& x, int64_t i) { return F::template slope<input>(x[0][i], x[1][i], x[2][i], x[3][i]); });
}

// A function with a fast form for usual numbers, of which F::word is below F::bound, and a careful one. A piece is
// computed the fast way, and where a word was too large once more with care; one that is computed in place goes through
// a tile, because its input is still needed then.
template <int inputs, class F>
void usual_or_careful(const Values* in, const Place& out, int64_t n, const float*) {
  alignas(64) float tile[tile_elements];
  bool in_place = false;
  for (int k = 0; k < inputs; ++k) in_place = in_place || in[k].data == out.data;
  for (int64_t at = 0; at < n; at += tile_elements) {
    const int64_t count = n - at < tile_elements ? n - at : tile_elements;
    Values piece[inputs];
    for (int k = 0; k < inputs; ++k)
      piece[k] = {static_cast<const char*>(in[k].data) + (at << shift_of(in[k].type)), in[k].type};
    const Place to{static_cast<char*>(out.data) + (at << shift_of(out.type)), out.type, out.streamed};
    Words most{};
    each_of<inputs>(piece, in_place ? Place{tile} : to, count, [&](auto& x, int64_t i) {
      const Words word = F::word(x, i);
      most = word > most ? word : most;
      return F::usual(x, i);
    });
    bool usual = true;
    for (int k = 0; k < width; ++k) usual = usual && most[k] < F::bound;
    if (!usual)
      each_of<inputs>(piece, to, count, [](auto& x, int64_t i) { return F::careful(x, i); });
    else if (in_place)
      convert({tile}, to, count);
  }
}

template <class F>
constexpr TileFunctions unary(const char* op, unsigned reads = 1) {
  return {op, 1, unary_value<F>, {unary_gradient<F>}, reads};
}
template <class F>
constexpr TileFunctions binary(const char* op, unsigned reads = 3) {
  return {op, 2, binary_value<F>, {binary_gradient_a<F>, binary_gradient_b<F>}, reads};
}

void stream(void* target, const void* source, int64_t bytes);
void fence();
void moments(const float* x, float origin, int64_t n, float sums[2], const float* ahead, const LineBefore&);
void moments_in_turn(const RowsRead&, const RowsWritten& before, int64_t n, float sums[rows_in_turn][2]);
void normalize(const Place& y, const float* x, float mean, float rstd, const float* gain, const float* bias, int64_t n);
void normalize_shared(const Place& y, const float* x, float mean, float rstd, float gain, float bias, int64_t n,
                      const float* ahead);
void normalize_sums(const float* x, const float* dy, float mean, float rstd, const float* gain, int64_t n,
                    float sums[2], const float* ahead_x, const float* ahead_dy, const GradientBefore&);
void normalize_gradient(const Place& dx, const float* x, const float* dy, float mean, float rstd, const float* gain,
                        float a, float b, float* dgain, float* dbias, int64_t n);
void normalize_gradient_shared(const Place& dx, const float* x, const float* dy, float mean, float rstd, float gain,
                               float a, float b, int64_t n);
void normalize_gradient_in_turn(const GradientRows&, int64_t n);
void transpose_2(uint16_t* to, int64_t to_stride, const uint16_t* from, int64_t from_stride, int64_t rows,
                 int64_t columns);
void transpose_4(uint32_t* to, int64_t to_stride, const uint32_t* from, int64_t from_stride, int64_t rows,
                 int64_t columns, bool streamed);
void drop(const Values& x, const Place& y, uint32_t* bits, float factor, uint64_t seed, uint64_t stream, uint64_t first,
          uint32_t least, int64_t n);
void keep(const Values& x, const Place& y, const uint32_t* bits, float factor, int64_t n);

// The rows of each file of functions.
extern const TileFunctions unary_functions[], activation_functions[], binary_functions[], reduction_functions[];
extern const size_t unary_count, activation_count, binary_count, reduction_count;

}  // namespace d5::onednn::own::D5_ISA
