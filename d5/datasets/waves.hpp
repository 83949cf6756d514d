// SPDX-License-Identifier: Apache-2.0
// Smooth random fields on a periodic grid, as sums of few waves: g(x) = sum over k of a_k cos(2 pi k.x / N + phase_k),
// k over whole vectors of half the ball 0 < |k| <= most (k and -k are one wave). Distinct waves are orthogonal on the
// grid (N > 2 most), so the variance of g over the grid is exactly sum a_k^2 / 2.
// The sum is done one axis after the other: N^d (2 most + 1) steps instead of N^d times the number of waves.
#pragma once

#include <functional>
#include <span>

#include "d5/core/rng.hpp"

namespace d5 {

// Grid of rank 2 or 3. `power` gives the relative a_k^2 of a wave of length |k|; the amplitudes are scaled to the
// variance. Phases are numbers first, first + 1, ... of the generator.
void fill_waves(std::span<float> grid, std::span<const Index> sizes, int most,
                const std::function<double(double)>& power, double variance, const Rng&, uint64_t first);

}  // namespace d5
