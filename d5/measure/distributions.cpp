// SPDX-License-Identifier: Apache-2.0
// The binomial follows C. Loader, "Fast and Accurate Computation of Binomial Probabilities" (2000): logarithms of large
// factorials are never subtracted from each other, so that nothing is lost to cancellation even at n = 1e6.
#include "d5/measure/distributions.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "d5/core/error.hpp"

namespace d5 {
namespace {

// ln n! minus Stirling's formula.
double stirling_error(double n) {
  if (n < 16) return std::lgamma(n + 1) - (0.5 * std::log(2 * std::numbers::pi * n) + n * std::log(n) - n);
  const double m = n * n;
  return (1.0 / 12 - (1.0 / 360 - (1.0 / 1260 - (1.0 / 1680 - 1.0 / (1188 * m)) / m) / m) / m) / n;
}

// x ln(x / mean) + mean - x, by its series where the two terms would cancel.
double deviance(double x, double mean) {
  if (std::abs(x - mean) >= 0.1 * (x + mean)) return x * std::log(x / mean) + mean - x;
  const double v = (x - mean) / (x + mean);
  double sum = (x - mean) * v;
  double power = 2 * x * v;
  for (int j = 3; j < 1000; j += 2) {
    power *= v * v;
    const double next = sum + power / j;
    if (next == sum) break;
    sum = next;
  }
  return sum;
}

}  // namespace

double binomial_pmf(int64_t k, int64_t n, double p) {
  if (n < 0 || !(p >= 0 && p <= 1)) throw Error("[binomial] n = {}, p = {}; legal: n >= 0, 0 <= p <= 1", n, p);
  if (k < 0 || k > n) return 0;
  if (p == 0) return k == 0 ? 1 : 0;
  if (p == 1) return k == n ? 1 : 0;
  const double size = static_cast<double>(n), hits = static_cast<double>(k), misses = static_cast<double>(n - k);
  if (k == 0) return std::exp(size * std::log1p(-p));
  if (k == n) return std::exp(size * std::log(p));
  const double exponent = stirling_error(size) - stirling_error(hits) - stirling_error(misses) -
                          deviance(hits, size * p) - deviance(misses, size * (1 - p));
  return std::exp(exponent) * std::sqrt(size / (2 * std::numbers::pi * hits * misses));
}

double binomial_cdf(int64_t k, int64_t n, double p) {
  if (n < 0 || !(p >= 0 && p <= 1)) throw Error("[binomial] n = {}, p = {}; legal: n >= 0, 0 <= p <= 1", n, p);
  if (k < 0) return 0;
  if (k >= n || p == 0) return 1;
  if (p == 1) return 0;
  // Sum the tail that does not hold the mean, from its largest term outwards: the terms only shrink.
  const double odds = p / (1 - p);
  double sum = 0;
  if (static_cast<double>(k) < static_cast<double>(n) * p) {
    double term = binomial_pmf(k, n, p);
    for (int64_t j = k; j >= 0 && term > sum * 1e-17; --j) {
      sum += term;
      term *= static_cast<double>(j) / (static_cast<double>(n - j + 1) * odds);
    }
    return sum;
  }
  double term = binomial_pmf(k + 1, n, p);
  for (int64_t j = k + 1; j <= n && term > sum * 1e-17; ++j) {
    sum += term;
    term *= static_cast<double>(n - j) * odds / static_cast<double>(j + 1);
  }
  return 1 - sum;
}

double normal_cdf(double z) { return 0.5 * std::erfc(-z / std::numbers::sqrt2); }

double normal_quantile(double p) {
  if (!(p > 0 && p < 1)) throw Error("[normal] quantile of p = {}; legal: 0 < p < 1", p);
  const double tail = std::min(p, 1 - p);
  // Abramowitz and Stegun 26.2.23 is good to 4.5e-4; two Halley steps on the exact function do the rest.
  const double t = std::sqrt(-2 * std::log(tail));
  double z = -(t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308))));
  for (int step = 0; step < 3; ++step) {
    const double density = std::exp(-0.5 * z * z) / std::sqrt(2 * std::numbers::pi);
    const double newton = (normal_cdf(z) - tail) / density;
    z -= newton / (1 + 0.5 * z * newton);
  }
  return p < 0.5 ? z : -z;
}

// The regularised incomplete gamma function Q(degrees / 2, x / 2): its series below the mean, Legendre's continued
// fraction (by Lentz) above it, where each converges fast.
double chi_square_tail(double x, double degrees) {
  if (!(degrees > 0) || !(x >= 0))
    throw Error("[chi-square] x = {}, degrees = {}; legal: x >= 0, degrees > 0", x, degrees);
  const double a = degrees / 2, y = x / 2;
  if (y == 0) return 1;
  const double front = std::exp(a * std::log(y) - y - std::lgamma(a));
  if (y < a + 1) {
    double term = 1 / a, sum = term;
    for (double n = a + 1; term > sum * 1e-17; ++n) sum += term *= y / n;
    return 1 - front * sum;
  }
  double b = y + 1 - a, c = 1e300, d = 1 / b, result = d;
  for (int i = 1; i < 100000; ++i) {
    const double numerator = -i * (i - a);
    b += 2;
    d = 1 / (numerator * d + b);
    c = b + numerator / c;
    result *= c * d;
    if (std::abs(c * d - 1) < 1e-16) break;
  }
  return front * result;
}

// P(T >= |t|) = I_x(degrees / 2, 1 / 2) / 2 with x = degrees / (degrees + t^2): the regularised incomplete beta
// function by its continued fraction (DLMF 8.17.22, by Lentz), on the side where that converges fast.
double student_cdf(double t, double degrees) {
  if (!(degrees > 0) || std::isnan(t)) throw Error("[student] t = {}, degrees = {}; legal: degrees > 0", t, degrees);
  if (std::isinf(t)) return t > 0 ? 1 : 0;
  const auto incomplete = [](double a, double b, double x, double rest) {  // rest = 1 - x
    if (x <= 0) return 0.0;
    const double front =
        std::exp(a * std::log(x) + b * std::log(rest) + std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b)) / a;
    const auto nonzero = [](double value) { return std::abs(value) < 1e-300 ? 1e-300 : value; };
    double c = 1, d = 1 / nonzero(1 - (a + b) * x / (a + 1)), result = d;
    for (int m = 1; m < 100000; ++m) {
      const double k = m;
      const double even = k * (b - k) * x / ((a + 2 * k - 1) * (a + 2 * k));
      d = 1 / nonzero(1 + even * d);
      c = nonzero(1 + even / c);
      result *= c * d;
      const double odd = -(a + k) * (a + b + k) * x / ((a + 2 * k) * (a + 2 * k + 1));
      d = 1 / nonzero(1 + odd * d);
      c = nonzero(1 + odd / c);
      result *= c * d;
      if (std::abs(c * d - 1) < 1e-16) break;
    }
    return front * result;
  };
  const double a = degrees / 2, b = 0.5, x = degrees / (degrees + t * t), rest = t * t / (degrees + t * t);
  const double beta = x < (a + 1) / (a + b + 2) ? incomplete(a, b, x, rest) : 1 - incomplete(b, a, rest, x);
  return t > 0 ? 1 - beta / 2 : beta / 2;
}

}  // namespace d5
