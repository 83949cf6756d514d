// SPDX-License-Identifier: Apache-2.0
#include "d5/datasets/waves.hpp"

#include <cmath>
#include <numbers>
#include <vector>

#include "d5/core/error.hpp"

namespace d5 {
namespace {

struct Complex {  // std::complex checks for infinities in every product
  float real = 0, imaginary = 0;
};

// e^(2 pi i k x / n) for k = -most .. most and all x.
std::vector<Complex> turns(Index n, int most) {
  std::vector<Complex> all;
  for (int k = -most; k <= most; ++k)
    for (Index x = 0; x < n; ++x) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(k * x % n) / static_cast<double>(n);
      all.push_back({static_cast<float>(std::cos(angle)), static_cast<float>(std::sin(angle))});
    }
  return all;
}

// in[before][k][after] -> out[before][x][after]: the sum over k along one axis.
std::vector<Complex> transformed(const std::vector<Complex>& in, size_t before, size_t waves, size_t after, Index n) {
  const std::vector<Complex> turn = turns(n, static_cast<int>(waves / 2));
  std::vector<Complex> out(before * static_cast<size_t>(n) * after);
  for (size_t b = 0; b < before; ++b)
    for (size_t k = 0; k < waves; ++k)
      for (size_t x = 0; x < static_cast<size_t>(n); ++x) {
        const Complex factor = turn[k * static_cast<size_t>(n) + x];
        const Complex* from = in.data() + (b * waves + k) * after;
        Complex* to = out.data() + (b * static_cast<size_t>(n) + x) * after;
        for (size_t a = 0; a < after; ++a) {
          to[a].real += from[a].real * factor.real - from[a].imaginary * factor.imaginary;
          to[a].imaginary += from[a].real * factor.imaginary + from[a].imaginary * factor.real;
        }
      }
  return out;
}

}  // namespace

void fill_waves(std::span<float> grid, std::span<const Index> sizes, int most,
                const std::function<double(double)>& power, double variance, const Rng& rng, uint64_t first) {
  for (const Index n : sizes)
    if (n <= 2 * most) throw UsageError("[waves] a grid of {} points; {} waves need more than {}", n, most, 2 * most);
  const bool deep = sizes.size() == 3;
  const int waves = 2 * most + 1, deepest = deep ? most : 0;
  // Coefficients by (z, y, x), of which one half is used.
  std::vector<Complex> coefficients(static_cast<size_t>((2 * deepest + 1) * waves * waves));
  double sum = 0;
  size_t at = 0;
  for (int z = -deepest; z <= deepest; ++z)
    for (int y = -most; y <= most; ++y)
      for (int x = -most; x <= most; ++x, ++at) {
        const bool used = z > 0 || (z == 0 && (y > 0 || (y == 0 && x > 0)));
        const int square = z * z + y * y + x * x;
        if (!used || square > most * most) continue;
        const double amplitude = std::sqrt(power(std::sqrt(square)));
        const double phase = 2 * std::numbers::pi * rng.uniform(first++);
        coefficients[at] = {static_cast<float>(amplitude * std::cos(phase)),
                            static_cast<float>(amplitude * std::sin(phase))};
        sum += amplitude * amplitude / 2;
      }
  const double scale = sum > 0 ? std::sqrt(variance / sum) : 0;
  size_t before = 1;
  std::vector<Complex> values = std::move(coefficients);
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    size_t after = 1;
    for (size_t later = axis + 1; later < sizes.size(); ++later) after *= static_cast<size_t>(waves);
    values = transformed(values, before, static_cast<size_t>(waves), after, sizes[axis]);
    before *= static_cast<size_t>(sizes[axis]);
  }
  for (size_t i = 0; i < grid.size(); ++i) grid[i] = static_cast<float>(scale) * values[i].real;
}

}  // namespace d5
