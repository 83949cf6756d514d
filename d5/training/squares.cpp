// SPDX-License-Identifier: Apache-2.0
// Of norms this is the larger part, and what compilers make of a plain loop takes twice as long: it is written for each
// instruction set.
#include "d5/training/squares.hpp"

#include "d5/training/generated_loop.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace d5 {
namespace {

void add_plain(Squares& squares, const float* x, Index n) {
  for (Index i = 0; i < n; ++i) {
    const double v = x[i];
    squares.sums[i / 8 % 4][i % 8] += v * v;
  }
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) void add_avx2(Squares& squares, const float* x, Index n) {
  double* const sums = &squares.sums[0][0];
  __m256d now[8];
  for (Index k = 0; k < 8; ++k) now[k] = _mm256_loadu_pd(sums + 4 * k);
  for (Index i = 0; i < n; i += Squares::step)
    for (Index k = 0; k < 8; ++k) {
      const __m256d v = _mm256_cvtps_pd(_mm_loadu_ps(x + i + 4 * k));
      now[k] = _mm256_add_pd(now[k], _mm256_mul_pd(v, v));
    }
  for (Index k = 0; k < 8; ++k) _mm256_storeu_pd(sums + 4 * k, now[k]);
}

__attribute__((target("avx512f"))) void add_avx512(Squares& squares, const float* x, Index n) {
  __m512d now[4];
  for (Index k = 0; k < 4; ++k) now[k] = _mm512_loadu_pd(squares.sums[k]);
  for (Index i = 0; i < n; i += Squares::step)
    for (Index k = 0; k < 4; ++k) {
      const __m512d v = _mm512_maskz_cvtps_pd(0xff, _mm256_loadu_ps(x + i + 8 * k));
      now[k] = _mm512_fmadd_pd(v, v, now[k]);
    }
  for (Index k = 0; k < 4; ++k) _mm512_storeu_pd(squares.sums[k], now[k]);
}
#endif

}  // namespace

void add_squares(Squares& squares, const float* x, Index n) {
#if defined(__x86_64__)
  static const Instructions best = best_instructions();
  if (best == Instructions::avx512) return add_avx512(squares, x, n);
  if (best == Instructions::avx2) return add_avx2(squares, x, n);
#endif
  add_plain(squares, x, n);
}

double total(const Squares& squares, const float* rest, Index n) {
  const auto& sums = squares.sums;
  double all[8];
  for (Index i = 0; i < 8; ++i) all[i] = (sums[0][i] + sums[1][i]) + (sums[2][i] + sums[3][i]);
  for (Index i = 0; i < n; ++i) all[i % 8] += static_cast<double>(rest[i]) * rest[i];
  return ((all[0] + all[4]) + (all[1] + all[5])) + ((all[2] + all[6]) + (all[3] + all[7]));
}

}  // namespace d5
