// SPDX-License-Identifier: Apache-2.0
// From functions of numbers to functions of tiles. `p` are the operator's attributes (Parameters).
#pragma once

#include "d5/backends/onednn/own/loops.hpp"
#include "d5/backends/onednn/own/loops/math.hpp"

namespace d5::onednn::own::D5_ISA {

struct Parameters {  // a copy: the compiler need not fear that a store changes them
  float a, b, c, d;
  explicit Parameters(const float* p) : a(p[0]), b(p[1]), c(p[2]), d(p[3]) {}
};

#define D5_EACH_OF(i, n) _Pragma("omp simd") for (int64_t i = 0; i < (n); ++i)
#define D5_EACH(n) D5_EACH_OF(i, n)

template <class F>
void unary_value(const float* const* in, float* out, int64_t n, const float* parameters) {
  const float* x = in[0];
  const Parameters p(parameters);
  D5_EACH(n) out[i] = F::value(x[i], p);
}
template <class F>
void unary_gradient(const float* const* in, float* out, int64_t n, const float* parameters) {
  const float *x = in[0], *dy = in[1];
  const Parameters p(parameters);
  D5_EACH(n) out[i] = dy[i] * F::slope(x[i], p);
}
template <class F>
void binary_value(const float* const* in, float* out, int64_t n, const float* parameters) {
  const float *a = in[0], *b = in[1];
  const Parameters p(parameters);
  D5_EACH(n) out[i] = F::value(a[i], b[i], p);
}
template <class F>
void binary_gradient_a(const float* const* in, float* out, int64_t n, const float* parameters) {
  const float *a = in[0], *b = in[1], *dy = in[2];
  const Parameters p(parameters);
  D5_EACH(n) out[i] = F::slope_a(a[i], b[i], dy[i], p);
}
template <class F>
void binary_gradient_b(const float* const* in, float* out, int64_t n, const float* parameters) {
  const float *a = in[0], *b = in[1], *dy = in[2];
  const Parameters p(parameters);
  D5_EACH(n) out[i] = F::slope_b(a[i], b[i], dy[i], p);
}
template <class F>
void ternary_value(const float* const* in, float* out, int64_t n, const float*) {
  const float *a = in[0], *b = in[1], *c = in[2];
  D5_EACH(n) out[i] = F::value(a[i], b[i], c[i]);
}
template <class F, int input>
void ternary_gradient(const float* const* in, float* out, int64_t n, const float*) {
  const float *a = in[0], *b = in[1], *c = in[2], *dy = in[3];
  D5_EACH(n) out[i] = F::template slope<input>(a[i], b[i], c[i], dy[i]);
}

template <class F>
constexpr TileFunctions unary(const char* op, unsigned reads = 1) {
  return {op, 1, unary_value<F>, {unary_gradient<F>}, reads};
}
template <class F>
constexpr TileFunctions binary(const char* op, unsigned reads = 3) {
  return {op, 2, binary_value<F>, {binary_gradient_a<F>, binary_gradient_b<F>}, reads};
}

void transpose_2(uint16_t* to, int64_t to_stride, const uint16_t* from, int64_t from_stride, int64_t rows,
                 int64_t columns);
void transpose_4(uint32_t* to, int64_t to_stride, const uint32_t* from, int64_t from_stride, int64_t rows,
                 int64_t columns);
void philox_mask(float* mask, uint64_t seed, uint64_t stream, uint64_t first, uint64_t least, int64_t n);

// The rows of each file of functions.
extern const TileFunctions unary_functions[], activation_functions[], binary_functions[], reduction_functions[];
extern const size_t unary_count, activation_count, binary_count, reduction_count;

}  // namespace d5::onednn::own::D5_ISA
