// SPDX-License-Identifier: Apache-2.0
#include "d5/operators/fourier.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace d5 {

std::vector<std::complex<double>> fourier(const std::vector<std::complex<double>>& x, Index length, Index count,
                                          bool inverse) {
  std::vector<std::complex<double>> roots(static_cast<size_t>(length)), y(static_cast<size_t>(count));
  for (Index i = 0; i < length; ++i) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(length);
    roots[i] = {std::cos(angle), inverse ? std::sin(angle) : -std::sin(angle)};
  }
  const Index terms = std::min<Index>(length, static_cast<Index>(x.size()));
  for (Index k = 0; k < count; ++k) {
    std::complex<double> sum = 0;
    for (Index n = 0, at = 0; n < terms; ++n) {
      sum += x[n] * roots[at];
      at += k;
      if (at >= length) at -= length;
    }
    y[k] = inverse ? sum / static_cast<double>(length) : sum;
  }
  return y;
}

}  // namespace d5
