// SPDX-License-Identifier: Apache-2.0
#include "d5/measure/quantile.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "d5/core/error.hpp"
#include "d5/measure/distributions.hpp"

namespace d5 {
namespace {

// The largest l in 1..n with P(Bin(n, p) < l) <= tail, or 0 where there is none. The tiny slack lets a tail that is
// equal to a power of two in theory be equal here too.
int64_t exact_lower_rank(int64_t n, double p, double tail) {
  int64_t low = 0, high = n + 1;  // the condition holds at `low` and fails at `high`
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (binomial_cdf(middle - 1, n, p) <= tail * (1 + 1e-12) ? low : high) = middle;
  }
  return low;
}

int64_t lower_rank(int64_t n, double p, double tail, double n_eff) {
  const int64_t exact = exact_lower_rank(n, p, tail);
  if (n_eff >= static_cast<double>(n)) return exact;
  // An interval from six dependent samples cannot promise more than one from as many independent ones.
  if (exact_lower_rank(static_cast<int64_t>(n_eff), p, tail) == 0) return 0;
  const double size = static_cast<double>(n);
  const double reach = -normal_quantile(tail) * std::sqrt(size * p * (1 - p) * size / n_eff);
  return std::clamp<int64_t>(static_cast<int64_t>(std::floor(size * p + 0.5 - reach)), 0, exact);
}

// The upper rank for p is the mirrored lower rank for 1 - p.
std::optional<double> end_of(std::span<const double> sorted, double p, Side side, double n_eff, double tail) {
  const int64_t n = static_cast<int64_t>(sorted.size());
  const int64_t rank = lower_rank(n, side == Side::lower ? p : 1 - p, tail, n_eff);
  if (rank == 0) return std::nullopt;
  return sorted[static_cast<size_t>(side == Side::lower ? rank - 1 : n - rank)];
}

void check(std::span<const double> sorted, double p, double n_eff, double confidence) {
  if (!(p > 0 && p < 1)) throw Error("[quantile] interval of p = {}; legal: 0 < p < 1", p);
  if (!(confidence > 0 && confidence < 1)) throw Error("[quantile] confidence = {}; legal: 0 .. 1", confidence);
  if (!(n_eff >= 0)) throw Error("[quantile] n_eff = {} of {} samples; legal: 0 .. n", n_eff, sorted.size());
}

// Bits of the indicator, so that one lag of the autocorrelation costs n / 64 operations.
class IndicatorBits {
 public:
  IndicatorBits(std::span<const double> values, double threshold) : size_(values.size()), words_(size_ / 64 + 2) {
    for (size_t i = 0; i < size_; ++i) words_[i / 64] |= uint64_t{values[i] <= threshold} << (i % 64);
  }

  // How often the bits i and i + lag are both set.
  size_t both(size_t lag) const {
    const size_t skip = lag / 64, shift = lag % 64, last = size_ / 64;
    size_t count = 0;
    for (size_t w = 0; w + skip <= last; ++w) {
      const uint64_t low = words_[w + skip] >> shift;
      const uint64_t high = shift == 0 ? 0 : words_[w + skip + 1] << (64 - shift);
      count += static_cast<size_t>(std::popcount(words_[w] & (low | high)));
    }
    return count;
  }

  bool operator[](size_t i) const { return (words_[i / 64] >> (i % 64)) & 1; }

 private:
  size_t size_;
  std::vector<uint64_t> words_;
};

}  // namespace

double quantile(std::span<const double> sorted, double p) {
  if (sorted.empty()) throw Error("[quantile] no samples");
  if (!(p >= 0 && p <= 1)) throw Error("[quantile] p = {}; legal: 0 <= p <= 1", p);
  const double position = p * static_cast<double>(sorted.size() - 1);
  const size_t below = static_cast<size_t>(position);
  if (below + 1 >= sorted.size()) return sorted.back();
  const double share = position - static_cast<double>(below);
  return share == 0 ? sorted[below] : sorted[below] * (1 - share) + sorted[below + 1] * share;
}

double median(std::vector<double> values) {
  if (values.empty()) throw Error("[median] no samples");
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return std::midpoint(*std::max_element(values.begin(), middle), *middle);
}

std::optional<Interval> quantile_interval(std::span<const double> sorted, double p, double n_eff, double confidence) {
  check(sorted, p, n_eff, confidence);
  const double tail = (1 - confidence) / 2;
  const auto low = end_of(sorted, p, Side::lower, n_eff, tail);
  const auto high = end_of(sorted, p, Side::upper, n_eff, tail);
  if (!low || !high) return std::nullopt;
  return Interval{*low, *high};
}

std::optional<double> quantile_bound(std::span<const double> sorted, double p, Side side, double n_eff,
                                     double confidence) {
  check(sorted, p, n_eff, confidence);
  return end_of(sorted, p, side, n_eff, 1 - confidence);
}

double effective_samples(std::span<const double> in_time_order) {
  const size_t n = in_time_order.size();
  const double size = static_cast<double>(n);
  if (n < 4) return size;
  const IndicatorBits bits(in_time_order, median({in_time_order.begin(), in_time_order.end()}));
  const size_t ones = bits.both(0);
  if (ones == n) return size;  // constant up to outliers: the indicator says nothing
  const double mean = static_cast<double>(ones) / size;
  const double variance = size * mean * (1 - mean);

  // sum_{i < n-k} (b_i - mean)(b_{i+k} - mean) / variance, with the sums over the two ends kept up to date.
  size_t head = ones, tail = ones;
  const auto correlation = [&](size_t lag) {
    head -= bits[n - lag];
    tail -= bits[lag - 1];
    const double product = static_cast<double>(bits.both(lag)) - mean * static_cast<double>(head + tail) +
                           static_cast<double>(n - lag) * mean * mean;
    return product / variance;
  };
  constexpr size_t longest = 20'000;  // keeps a drifting sample of 1e6 below a second
  double sum = 1;
  size_t lag = 0;  // pairs are (0, 1), (2, 3), ...
  for (double even = 1; lag + 1 < std::min(n / 2, longest); lag += 2) {
    const double odd = correlation(lag + 1);
    if (even + odd <= 0) break;
    sum += 2 * odd + (lag > 0 ? 2 * even : 0);
    even = correlation(lag + 2);
  }
  if (lag == 0) return size;

  const double twice_lags = static_cast<double>(2 * (lag - 1));
  // Subtracting the sample's own mean takes about sum / n from every rho_k (Marriott and Pope, 1954); give it back.
  const double lost = (twice_lags + 1) / size;
  if (lost >= 1) return 1;
  // The sum is itself an estimate, of relative variance 2 / freedom with freedom = n / (2 lags), so Student's t should
  // stand where the ranks have z = 1.96. Its expansion (Cornish and Fisher, 1938) moves into n_eff. Without this the
  // interval of correlated samples covers 92 to 94 % (d5-statistics-coverage).
  const double freedom = size / twice_lags;
  const double widening = 1 + 1.21 / freedom + 1.44 / (freedom * freedom);
  const double inflation = sum / (1 - lost) * widening * widening;
  return std::clamp(size / std::max(inflation, 1.0), 1.0, size);
}

}  // namespace d5
