// SPDX-License-Identifier: Apache-2.0
#include "d5/measure/quantile.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <random>

#include "d5/core/error.hpp"
#include "d5/measure/distributions.hpp"

namespace d5 {
namespace {

std::vector<double> ranks(size_t n) {
  std::vector<double> x(n);
  std::iota(x.begin(), x.end(), 1.0);
  return x;
}

// The value at a rank is the rank itself here, so intervals show their ranks.
std::optional<Interval> interval_of(size_t n, double p) {
  return quantile_interval(ranks(n), p, static_cast<double>(n));
}

TEST(Quantile, TypeSeven) {
  const std::vector<double> x = {1, 2, 4, 8};  // numpy.quantile(x, p), default method
  EXPECT_DOUBLE_EQ(quantile(x, 0), 1);
  EXPECT_DOUBLE_EQ(quantile(x, 0.25), 1.75);
  EXPECT_DOUBLE_EQ(quantile(x, 0.5), 3);
  EXPECT_DOUBLE_EQ(quantile(x, 0.9), 6.8);
  EXPECT_DOUBLE_EQ(quantile(x, 1), 8);
  EXPECT_DOUBLE_EQ(median({8, 1, 4, 2}), 3);
  EXPECT_DOUBLE_EQ(median({8, 1, 4}), 4);
  EXPECT_THROW(median({}), Error);
}

// The check value of docs and specification: ranks 2 and 9, coverage 97.9 %.
TEST(Quantile, TenSamplesGiveTheSecondAndTheNinth) {
  const auto interval = interval_of(10, 0.5);
  ASSERT_TRUE(interval);
  EXPECT_EQ(interval->low, 2);
  EXPECT_EQ(interval->high, 9);
  EXPECT_NEAR(binomial_cdf(8, 10, 0.5) - binomial_cdf(1, 10, 0.5), 0.979, 0.0005);
}

// Ranks by definition: scipy 1.17.1, largest l with binom.cdf(l - 1) <= 0.025, smallest u with binom.sf(u - 1) <=
// 0.025.
TEST(Quantile, RanksOfOtherQuantiles) {
  EXPECT_EQ(interval_of(100, 0.5)->low, 40);
  EXPECT_EQ(interval_of(100, 0.5)->high, 61);
  EXPECT_EQ(interval_of(100, 0.25)->low, 17);
  EXPECT_EQ(interval_of(100, 0.25)->high, 35);
  EXPECT_EQ(interval_of(1000, 0.99)->low, 983);
  EXPECT_EQ(interval_of(1000, 0.99)->high, 997);
}

TEST(Quantile, RefusesWhereARankDoesNotExist) {
  EXPECT_FALSE(interval_of(5, 0.5));
  EXPECT_TRUE(interval_of(6, 0.5));
  for (double p : {0.05, 0.95}) {
    EXPECT_FALSE(interval_of(71, p));
    EXPECT_TRUE(interval_of(72, p));
  }
  EXPECT_FALSE(interval_of(367, 0.99));
  EXPECT_TRUE(interval_of(368, 0.99));
  EXPECT_FALSE(quantile_bound(ranks(4), 0.5, Side::upper, 4));
  EXPECT_EQ(quantile_bound(ranks(5), 0.5, Side::upper, 5), 5);
  EXPECT_EQ(quantile_bound(ranks(5), 0.5, Side::lower, 5), 1);
}

TEST(Quantile, FewerEffectiveSamplesWidenTheRanks) {
  // n/2 +- 1.96 sqrt(n/4 * n/n_eff) for n = 400: 400 effective samples 19.6, 100 effective samples 39.2.
  const auto exact = quantile_interval(ranks(400), 0.5, 400);
  const auto wide = quantile_interval(ranks(400), 0.5, 100);
  EXPECT_EQ(exact->low, 180);
  EXPECT_EQ(exact->high, 221);
  EXPECT_EQ(wide->low, 161);
  EXPECT_EQ(wide->high, 240);
  EXPECT_FALSE(quantile_interval(ranks(400), 0.5, 5.5)) << "no interval from fewer than six effective samples";
}

std::vector<double> autoregressive(size_t n, double rho, uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::normal_distribution<double> normal;
  std::vector<double> x(n);
  double score = normal(rng);
  for (double& v : x) {
    v = score;
    score = rho * score + std::sqrt(1 - rho * rho) * normal(rng);
  }
  return x;
}

// The indicator of a Gaussian AR(1) series has rho_k = 2/pi asin(rho^k); the sums below follow from it (numpy).
TEST(EffectiveSamples, AgreeWithTheTheoryOfAr1) {
  const double n = 100'000;
  EXPECT_NEAR(effective_samples(autoregressive(100'000, 0, 1)) / n, 1, 0.03);
  EXPECT_NEAR(n / effective_samples(autoregressive(100'000, 0.5, 2)), 2.31, 0.1);
  EXPECT_NEAR(n / effective_samples(autoregressive(100'000, 0.9, 3)), 13.28, 1);
}

TEST(EffectiveSamples, AreNeverMoreThanTheSamples) {
  std::vector<double> alternating(1000);
  for (size_t i = 0; i < alternating.size(); ++i) alternating[i] = static_cast<double>(i % 2);
  EXPECT_EQ(effective_samples(alternating), 1000);
  EXPECT_EQ(effective_samples(std::vector<double>(50, 3.0)), 50) << "a constant series";
  EXPECT_EQ(effective_samples(std::vector<double>{1, 2}), 2);
}

TEST(EffectiveSamples, OfADriftAreFewAndQuicklyFound) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_LT(effective_samples(ranks(100'000)), 20);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
}

TEST(Coverage, OfTheMedianIntervalBySimulation) {
  // Independent and correlated: 94 .. 98.5 % (d5-statistics-coverage has the whole table). 2,000 runs: +- 1 %.
  for (const double rho : {0.0, 0.6}) {
    int covered = 0;
    for (uint64_t run = 0; run < 2000; ++run) {
      std::vector<double> x = autoregressive(320, rho, 1000 + run);
      const double n_eff = effective_samples(x);
      std::sort(x.begin(), x.end());
      const auto interval = quantile_interval(x, 0.5, n_eff);
      covered += interval && interval->low <= 0 && 0 <= interval->high;
    }
    EXPECT_GT(covered, 2000 * 0.94) << "rho = " << rho;
    EXPECT_LT(covered, 2000 * 0.985) << "rho = " << rho;
  }
}

}  // namespace
}  // namespace d5
