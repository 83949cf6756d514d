// SPDX-License-Identifier: Apache-2.0
#include "d5/measure/shape_tests.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "d5/core/error.hpp"
#include "d5/measure/dip_table.hpp"
#include "d5/measure/distributions.hpp"
#include "d5/measure/quantile.hpp"

namespace d5 {
namespace {

// Corners of the greatest convex minorant (side = +1) or the least concave majorant (side = -1) of the points
// (x_i, i), i = first .. last, in ascending order.
void hull(std::span<const double> x, size_t first, size_t last, int side, std::vector<size_t>& corners) {
  corners.clear();
  for (size_t i = first; i <= last; ++i) {
    while (corners.size() >= 2) {
      const size_t a = corners[corners.size() - 2], b = corners.back();
      const double turn = (x[b] - x[a]) * static_cast<double>(i - b) - (x[i] - x[b]) * static_cast<double>(b - a);
      if (side * turn > 0) break;
      corners.pop_back();
    }
    corners.push_back(i);
  }
}

// The line through corners a and b of a hull, at x[i].
double chord(std::span<const double> x, size_t a, size_t b, size_t i) {
  const double width = x[b] - x[a];
  const double share = width > 0 ? (x[i] - x[a]) / width : 0;
  return static_cast<double>(a) + share * static_cast<double>(b - a);
}

// The largest distance between the empirical distribution and the hull from corner `from` to corner `to`. The
// minorant passes below the foot of each step, the majorant above its top: hence the 1.
double distance(std::span<const double> x, const std::vector<size_t>& corners, size_t from, size_t to, int side) {
  double largest = 0;
  for (size_t c = 0; c + 1 < corners.size(); ++c) {
    const size_t a = corners[c], b = corners[c + 1];
    if (a < from || b > to) continue;
    for (size_t i = a; i <= b; ++i) {
      largest = std::max(largest, side * (static_cast<double>(i) - chord(x, a, b, i)) + 1);
    }
  }
  return largest;
}

struct Modal {
  size_t low, high;
  double gap;
};

// Where the majorant is farthest above the minorant: a corner of one of them, and the corner of the other beyond it.
Modal widest_gap(std::span<const double> x, const std::vector<size_t>& minorant, const std::vector<size_t>& majorant) {
  Modal best{minorant.front(), minorant.back(), 0};
  for (size_t c = 0, segment = 0; c < minorant.size(); ++c) {
    const size_t i = minorant[c];
    while (segment + 2 < majorant.size() && majorant[segment + 1] < i) ++segment;
    const double gap = chord(x, majorant[segment], majorant[segment + 1], i) - static_cast<double>(i) + 1;
    if (gap > best.gap) best = {i, majorant[segment + 1], gap};
  }
  for (size_t c = 0, segment = 0; c < majorant.size(); ++c) {
    const size_t i = majorant[c];
    while (segment + 2 < minorant.size() && minorant[segment + 1] <= i) ++segment;
    const double gap = static_cast<double>(i) - chord(x, minorant[segment], minorant[segment + 1], i) + 1;
    if (gap > best.gap) best = {minorant[segment], i, gap};
  }
  return best;
}

int64_t count_inversions(std::vector<double>& values, std::vector<double>& buffer, size_t first, size_t last) {
  if (last - first < 2) return 0;
  const size_t middle = first + (last - first) / 2;
  int64_t count = count_inversions(values, buffer, first, middle) + count_inversions(values, buffer, middle, last);
  for (size_t i = first, left = first, right = middle; i < last; ++i) {
    if (right == last || (left < middle && values[left] <= values[right])) {
      buffer[i] = values[left++];
    } else {
      count += static_cast<int64_t>(middle - left);
      buffer[i] = values[right++];
    }
  }
  std::copy(buffer.begin() + static_cast<std::ptrdiff_t>(first), buffer.begin() + static_cast<std::ptrdiff_t>(last),
            values.begin() + static_cast<std::ptrdiff_t>(first));
  return count;
}

double sen_slope(std::span<const double> x) {
  const size_t step = (x.size() + 999) / 1000;
  std::vector<double> slopes;
  for (size_t i = 0; i < x.size(); i += step) {
    for (size_t j = i + step; j < x.size(); j += step) slopes.push_back((x[j] - x[i]) / static_cast<double>(j - i));
  }
  return median(std::move(slopes));
}

}  // namespace

// The algorithm of section 3 of the paper: narrow the modal interval to where the two hulls are farthest apart, and
// remember how far the empirical distribution strays from the hulls that were cut off, until no gap is wider.
double dip_statistic(std::span<const double> sorted) {
  const size_t n = sorted.size();
  if (n == 0) throw Error("[dip] no samples");
  double dip = 1;
  size_t low = 0, high = n - 1;
  std::vector<size_t> minorant, majorant;
  while (low < high && sorted[low] < sorted[high]) {
    hull(sorted, low, high, +1, minorant);
    hull(sorted, low, high, -1, majorant);
    const Modal modal = widest_gap(sorted, minorant, majorant);
    if (modal.gap <= dip) break;
    dip = std::max(
        {dip, distance(sorted, minorant, low, modal.low, +1), distance(sorted, majorant, modal.high, high, -1)});
    if (modal.low == low && modal.high == high) break;
    low = modal.low;
    high = modal.high;
  }
  return dip / (2 * static_cast<double>(n));
}

std::vector<double> simulated_dips(size_t n, size_t repetitions, uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::vector<double> sample(n), dips(repetitions);
  for (double& dip : dips) {
    // Partial sums of exponential steps, up to scale, are sorted uniform samples; the dip does not depend on scale.
    double sum = 0;
    for (double& x : sample) x = sum -= std::log((static_cast<double>(rng() >> 11) + 0.5) * 0x1p-53);
    dip = dip_statistic(sample);
  }
  std::sort(dips.begin(), dips.end());
  return dips;
}

double dip_p_value(double dip, double n) {
  if (n < dip_sizes.front()) return 1;
  // Between two sizes of the table sqrt(n) * dip is interpolated; beyond the last it has reached its limit.
  const size_t upper = std::clamp<size_t>(
      static_cast<size_t>(std::lower_bound(dip_sizes.begin(), dip_sizes.end(), n) - dip_sizes.begin()), 1,
      dip_sizes.size() - 1);
  const double low = dip_sizes[upper - 1], high = dip_sizes[upper];
  const double share = std::clamp((n - low) / (high - low), 0.0, 1.0);
  const double scaled = std::sqrt(n) * dip;
  double previous_quantile = std::sqrt(n) * 0.5 / n, previous_tail = 1;
  for (size_t k = 0; k < dip_probabilities.size(); ++k) {
    const double quantile =
        (1 - share) * std::sqrt(low) * dip_quantiles[upper - 1][k] + share * std::sqrt(high) * dip_quantiles[upper][k];
    const double tail = 1 - dip_probabilities[k];
    if (scaled < quantile) {
      const double part = std::max(0.0, scaled - previous_quantile) / std::max(quantile - previous_quantile, 1e-300);
      return std::exp((1 - part) * std::log(previous_tail) + part * std::log(tail));
    }
    previous_quantile = quantile;
    previous_tail = tail;
  }
  return previous_tail;
}

Trend mann_kendall(std::span<const double> in_time_order) {
  const size_t n = in_time_order.size();
  if (n < 2) return {0, 1, 0, 0};
  std::vector<double> values(in_time_order.begin(), in_time_order.end()), buffer(n);
  const int64_t falling = count_inversions(values, buffer, 0, n);
  const double size = static_cast<double>(n);
  double variance = size * (size - 1) * (2 * size + 5);
  int64_t tied = 0;
  for (size_t i = 0; i < n;) {  // `values` is sorted now: walk over the groups of ties
    size_t end = i;
    while (end < n && values[end] == values[i]) ++end;
    const double t = static_cast<double>(end - i);
    variance -= t * (t - 1) * (2 * t + 5);
    tied += static_cast<int64_t>((end - i) * (end - i - 1) / 2);
    i = end;
  }
  variance /= 18;
  const int64_t pairs = static_cast<int64_t>(n * (n - 1) / 2);
  const int64_t score = pairs - tied - 2 * falling;
  const double corrected = static_cast<double>(score > 0 ? score - 1 : score < 0 ? score + 1 : 0);
  const double z = variance > 0 ? corrected / std::sqrt(variance) : 0;
  return {z, 2 * normal_cdf(-std::abs(z)), sen_slope(in_time_order), score};
}

}  // namespace d5
