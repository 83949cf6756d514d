// SPDX-License-Identifier: Apache-2.0
// Lines of normalisations: xhat = (x - mean) rstd, y = xhat gain + bias.
#include "d5/backends/onednn/own/loops/joined.hpp"

namespace d5::onednn::own::D5_ISA {

namespace {

template <bool writes>
void moments_of(const float* x, float origin, int64_t n, float sums[2], const float* ahead, const LineBefore& before) {
  const LineBefore b = before;  // a copy: no store can change it
  Totals<Plus> of_d, of_square;
  walk_line(
      n, [&](auto at, int r) __attribute__((always_inline)) {
        const Vector d = at.rest_is(0.0f, at(x) - origin);
        of_d.add(r, d);
        of_square.add(r, d * d);
        if constexpr (!writes) return;
        at.fetch(ahead);
        at.stream(b.y, (at(b.x) - b.shift) * b.factor + b.term);
      });
  sums[0] = of_d.joined();
  sums[1] = of_square.joined();
}

// n fills whole lines of the caches.
template <bool has_bias>
void moments_in_turn_of(const RowsRead& read, const RowsWritten& before, int64_t n, float sums[rows_in_turn][2]) {
  const RowsRead now = read;  // copies: no store can change them
  const RowsWritten b = before;
  Vector of_d[rows_in_turn] = {}, of_square[rows_in_turn] = {};
  for (int64_t i = 0; i < n; i += width) {
    const VectorAt at{i};
#pragma GCC unroll 4
    for (int r = 0; r < rows_in_turn; ++r) {
      const Vector d = at(now.x[r]) - now.origin[r];
      at.fetch(now.ahead[r]);
      of_d[r] = of_d[r] + d;
      of_square[r] = of_square[r] + d * d;
      const Vector y = (at(b.x[r]) - b.mean[r]) * b.rstd[r] * at(b.gain);
      at.stream(b.y[r], has_bias ? y + at(b.bias) : y);
    }
  }
  for (int r = 0; r < rows_in_turn; ++r) {
    sums[r][0] = across<Plus>(of_d[r]);
    sums[r][1] = across<Plus>(of_square[r]);
  }
}

// dx at one place, and what its gain and bias get there.
template <class At>
D5_INLINE Vector gradient_at(At at, const float* x, const float* dy, float mean, float rstd, Vector gain, float a,
                             float b, float* dgain, float* dbias) {
  const Vector d = at(dy), xhat = (at(x) - mean) * rstd;
  if (dgain) at.put(dgain, at(dgain) + d * xhat);
  if (dbias) at.put(dbias, at(dbias) + d);
  return rstd * (d * gain - a - xhat * b);
}

template <bool has_gain, bool writes>
void sums_of(const float* x, const float* dy, float mean, float rstd, const float* gain, int64_t n, float sums[2],
             const float* ahead_x, const float* ahead_dy, const GradientBefore& before) {
  const GradientBefore b = before;
  Totals<Plus> of_g, of_product;
  walk_line(
      n, [&](auto at, int r) __attribute__((always_inline)) {
        Vector g = at(dy);
        if constexpr (has_gain) g = g * at(gain);
        of_g.add(r, at, g);
        of_product.add(r, at, g * ((at(x) - mean) * rstd));
        if constexpr (!writes) return;
        at.fetch(ahead_x);
        at.fetch(ahead_dy);
        at.stream(b.dx, gradient_at(at, b.x, b.dy, b.mean, b.rstd, spread(b.gain), b.a, b.b, nullptr, nullptr));
      });
  sums[0] = of_g.joined();
  sums[1] = of_product.joined();
}

template <bool has_gain, bool has_bias>
void gradient_in_turn_of(const GradientRows& rows, int64_t n) {
  const GradientRows g = rows;
  for (int64_t i = 0; i < n; i += width) {
    const VectorAt at{i};
    const Vector gain = at(g.gain);
    Vector of_gain{}, of_bias{};
#pragma GCC unroll 4
    for (int r = 0; r < rows_in_turn; ++r) {
      const Vector d = at(g.dy[r]), xhat = (at(g.x[r]) - g.mean[r]) * g.rstd[r];
      of_gain = of_gain + d * xhat;
      of_bias = of_bias + d;
      at.stream(g.dx[r], g.rstd[r] * (d * gain - g.a[r] - xhat * g.b[r]));
    }
    if (has_gain) at.put(g.dgain, at(g.dgain) + of_gain);
    if (has_bias) at.put(g.dbias, at(g.dbias) + of_bias);
  }
}

}  // namespace

void moments(const float* x, float origin, int64_t n, float sums[2], const float* ahead, const LineBefore& before) {
  (before.y ? moments_of<true> : moments_of<false>)(x, origin, n, sums, ahead, before);
}
void moments_in_turn(const RowsRead& now, const RowsWritten& before, int64_t n, float sums[rows_in_turn][2]) {
  (before.bias ? moments_in_turn_of<true> : moments_in_turn_of<false>)(now, before, n, sums);
}

void normalize(const Place& y, const float* x, float mean, float rstd, const float* gain, const float* bias,
               int64_t n) {
  if (bias)
    each_at(y, n, [=](auto at) { return (at(x) - mean) * rstd * at(gain) + at(bias); });
  else
    each_at(y, n, [=](auto at) { return (at(x) - mean) * rstd * at(gain); });
}
void normalize_shared(const Place& y, const float* x, float mean, float rstd, float gain, float bias, int64_t n,
                      const float* ahead) {
  if (ahead)
    each_at(
        y, n, [=](auto at) __attribute__((always_inline)) {
          at.fetch(ahead);
          return (at(x) - mean) * rstd * gain + bias;
        });
  else
    each_at(y, n, [=](auto at) { return (at(x) - mean) * rstd * gain + bias; });
}

void normalize_sums(const float* x, const float* dy, float mean, float rstd, const float* gain, int64_t n,
                    float sums[2], const float* ahead_x, const float* ahead_dy, const GradientBefore& before) {
  const auto loop = before.dx ? sums_of<false, true> : gain ? sums_of<true, false> : sums_of<false, false>;
  loop(x, dy, mean, rstd, gain, n, sums, ahead_x, ahead_dy, before);
}

void normalize_gradient(const Place& dx, const float* x, const float* dy, float mean, float rstd, const float* gain,
                        float a, float b, float* dgain, float* dbias, int64_t n) {
  each_at(
      dx, n, [=](auto at) __attribute__((always_inline)) {
        return gradient_at(at, x, dy, mean, rstd, at(gain), a, b, dgain, dbias);
      });
}
void normalize_gradient_shared(const Place& dx, const float* x, const float* dy, float mean, float rstd, float gain,
                               float a, float b, int64_t n) {
  each_at(dx, n, [=](auto at) { return rstd * (at(dy) * gain - a - (at(x) - mean) * rstd * b); });
}
void normalize_gradient_in_turn(const GradientRows& rows, int64_t n) {
  const auto loop = rows.dgain ? (rows.dbias ? gradient_in_turn_of<true, true> : gradient_in_turn_of<true, false>)
                               : (rows.dbias ? gradient_in_turn_of<false, true> : gradient_in_turn_of<false, false>);
  loop(rows, n);
}

}  // namespace d5::onednn::own::D5_ISA
