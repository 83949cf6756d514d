// SPDX-License-Identifier: Apache-2.0
// Lines of normalisations: xhat = (x - mean) rstd, y = xhat gain + bias.
#include "d5/backends/onednn/own/loops/joined.hpp"

namespace d5::onednn::own::D5_ISA {

float sum_of_squares(const float* x, float mean, int64_t n) {
  return joined_line<Plus>(n, [x, mean](auto at) {
    const auto d = at(x) - mean;
    return d * d;
  });
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
                    float sums[2]) {
  Totals<Plus> of_g, of_product;
  walk_line(
      n, [&](auto at, int r) __attribute__((always_inline)) {
        Vector g = at(dy);
        if (gain) g = g * at(gain);
        of_g.add(r, at, g);
        of_product.add(r, at, g * ((at(x) - mean) * rstd));
      });
  sums[0] = of_g.joined();
  sums[1] = of_product.joined();
}

void normalize_gradient(const Place& dx, const float* x, const float* dy, float mean, float rstd, const float* gain,
                        float a, float b, float* dgain, float* dbias, int64_t n) {
  each_at(
      dx, n, [=](auto at) __attribute__((always_inline)) {
        const auto d = at(dy), xhat = (at(x) - mean) * rstd;
        if (dgain) at.put(dgain, at(dgain) + d * xhat);
        if (dbias) at.put(dbias, at(dbias) + d);
        return rstd * (d * at(gain) - a - xhat * b);
      });
}
void normalize_gradient_shared(const Place& dx, const float* x, const float* dy, float mean, float rstd, float gain,
                               float a, float b, int64_t n) {
  each_at(dx, n, [=](auto at) { return rstd * (at(dy) * gain - a - (at(x) - mean) * rstd * b); });
}

}  // namespace d5::onednn::own::D5_ISA
