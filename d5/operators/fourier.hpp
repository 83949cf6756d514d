// SPDX-License-Identifier: Apache-2.0
// The discrete Fourier transform by its definition, shared by DFT and STFT.
#pragma once

#include <complex>
#include <vector>

#include "d5/core/shape.hpp"

namespace d5 {

// y_k = sum over n of exp(-+ 2 pi i k n / length) x_n for the first `count` k; what x lacks is zero, what it has too
// much is left out. The inverse has the other sign and is divided by the length.
std::vector<std::complex<double>> fourier(const std::vector<std::complex<double>>& x, Index length, Index count,
                                          bool inverse);

}  // namespace d5
