// SPDX-License-Identifier: Apache-2.0
// Lines of normalisations: xhat = (x - mean) rstd, y = xhat gain + bias.
#include "d5/backends/onednn/own/loops/joined.hpp"

namespace d5::onednn::own::D5_ISA {

namespace {

enum class Written { nothing, shared, gain, gain_and_bias };

template <Written written>
void moments_of(const float* x, float origin, int64_t n, float sums[2], const LineBefore& before) {
  const LineBefore b = before;  // a copy: no store can change it
  Totals<Plus> of_d, of_square;
  walk_line(
      n, [&](auto at, int r) __attribute__((always_inline)) {
        const Vector d = at.rest_is(0.0f, at(x) - origin);
        of_d.add(r, d);
        of_square.add(r, d * d);
        if constexpr (written == Written::nothing) return;
        const Vector z = (at(b.x) - b.shift) * b.factor;
        if constexpr (written == Written::shared) at.stream(b.y, z + b.term);
        if constexpr (written == Written::gain) at.stream(b.y, z * at(b.gain));
        if constexpr (written == Written::gain_and_bias) at.stream(b.y, z * at(b.gain) + at(b.bias));
      });
  sums[0] = of_d.joined();
  sums[1] = of_square.joined();
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

template <bool has_gain, Written written>
void sums_of(const float* x, const float* dy, float mean, float rstd, const float* gain, int64_t n, float sums[2],
             const GradientBefore& before) {
  const GradientBefore b = before;
  Totals<Plus> of_g, of_product;
  walk_line(
      n, [&](auto at, int r) __attribute__((always_inline)) {
        Vector g = at(dy);
        if constexpr (has_gain) g = g * at(gain);
        of_g.add(r, at, g);
        of_product.add(r, at, g * ((at(x) - mean) * rstd));
        if constexpr (written == Written::shared)
          at.stream(b.dx, gradient_at(at, b.x, b.dy, b.mean, b.rstd, spread(b.shared), b.a, b.b, nullptr, nullptr));
        if constexpr (written == Written::gain)
          at.stream(b.dx, gradient_at(at, b.x, b.dy, b.mean, b.rstd, at(b.gain), b.a, b.b, b.dgain, b.dbias));
      });
  sums[0] = of_g.joined();
  sums[1] = of_product.joined();
}

}  // namespace

void moments(const float* x, float origin, int64_t n, float sums[2], const LineBefore& before) {
  const auto loop = !before.y      ? moments_of<Written::nothing>
                    : !before.gain ? moments_of<Written::shared>
                    : !before.bias ? moments_of<Written::gain>
                                   : moments_of<Written::gain_and_bias>;
  loop(x, origin, n, sums, before);
}

void normalize(const Place& y, const float* x, float mean, float rstd, const float* gain, const float* bias,
               int64_t n) {
  if (bias)
    each_at(y, n, [=](auto at) { return (at(x) - mean) * rstd * at(gain) + at(bias); });
  else
    each_at(y, n, [=](auto at) { return (at(x) - mean) * rstd * at(gain); });
}
void normalize_shared(const Place& y, const float* x, float mean, float rstd, float gain, float bias, int64_t n) {
  each_at(y, n, [=](auto at) { return (at(x) - mean) * rstd * gain + bias; });
}

void normalize_sums(const float* x, const float* dy, float mean, float rstd, const float* gain, int64_t n,
                    float sums[2], const GradientBefore& before) {
  const auto loop = gain ? (before.dx ? sums_of<true, Written::gain> : sums_of<true, Written::nothing>)
                         : (before.dx ? sums_of<false, Written::shared> : sums_of<false, Written::nothing>);
  loop(x, dy, mean, rstd, gain, n, sums, before);
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

}  // namespace d5::onednn::own::D5_ISA
