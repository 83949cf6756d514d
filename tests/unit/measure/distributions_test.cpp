// SPDX-License-Identifier: Apache-2.0
#include "d5/measure/distributions.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "d5/core/error.hpp"

namespace d5 {
namespace {

void expect_relative(double value, double expected, double tolerance) {
  EXPECT_NEAR(value / expected, 1, tolerance) << value << " instead of " << expected;
}

// Expected values: scipy 1.17.1, stats.binom.cdf; its own accuracy at n = 1e6 is about 1e-10.
TEST(Distributions, BinomialAgreesWithScipy) {
  expect_relative(binomial_cdf(3, 10, 0.5), 0.171875, 1e-13);
  expect_relative(binomial_cdf(0, 72, 0.05), 0.024894280619189482, 1e-12);
  expect_relative(binomial_cdf(364, 368, 0.99), 0.5023804271171607, 1e-11);
  expect_relative(binomial_cdf(499'000, 1'000'000, 0.5), 0.0228041499326948, 1e-9);
  expect_relative(binomial_cdf(950'500, 1'000'000, 0.95), 0.9892590806159982, 1e-9);
  expect_relative(binomial_cdf(5, 1'000'000, 1e-5), 0.06708501704958428, 1e-9);
}

// Expected values: the lower tail summed with 40 digits (mpmath 1.x).
TEST(Distributions, BinomialIsAccurateForLargeCounts) {
  expect_relative(binomial_cdf(498'500, 1'000'000, 0.5), 0.0013543276530298784, 1e-12);
  expect_relative(binomial_cdf(948'692, 1'000'000, 0.95), 1.1475913905278851e-09, 1e-12);
  expect_relative(binomial_cdf(98'905, 100'000, 0.99), 0.001521060833176717, 1e-12);
}

TEST(Distributions, BinomialSumsToItsDistribution) {
  double sum = 0;
  for (int k = 0; k <= 300; ++k) {
    sum += binomial_pmf(k, 300, 0.3);
    EXPECT_NEAR(binomial_cdf(k, 300, 0.3), sum, 1e-13) << k;
  }
}

TEST(Distributions, BinomialEdges) {
  EXPECT_EQ(binomial_cdf(-1, 10, 0.5), 0);
  EXPECT_EQ(binomial_cdf(10, 10, 0.5), 1);
  EXPECT_EQ(binomial_cdf(0, 10, 0), 1);
  EXPECT_EQ(binomial_cdf(9, 10, 1), 0);
  EXPECT_THROW(binomial_cdf(1, 10, 1.5), Error);
}

// Expected values: scipy 1.17.1, stats.norm.
TEST(Distributions, NormalAgreesWithScipy) {
  expect_relative(normal_cdf(-1.96), 0.024997895148220435, 1e-14);
  expect_relative(normal_cdf(-10), 7.61985302416047e-24, 1e-13);
  expect_relative(normal_quantile(1e-12), -7.034483825301131, 1e-14);
  expect_relative(normal_quantile(0.025), -1.9599639845400545, 1e-14);
  expect_relative(normal_quantile(0.2), -0.8416212335729142, 1e-14);
  expect_relative(normal_quantile(0.9), 1.2815515655446004, 1e-14);
  expect_relative(normal_quantile(0.9995), 3.2905267314919255, 1e-13);
  EXPECT_NEAR(normal_quantile(0.5), 0, 1e-15);
  EXPECT_THROW(normal_quantile(0), Error);
}

// Quantiles of stats.chi2.ppf, and closed forms: with two degrees it is exp(-x / 2), with one erfc.
TEST(Distributions, ChiSquareAgreesWithTables) {
  EXPECT_NEAR(chi_square_tail(16.918977604620448, 9), 0.05, 1e-12);
  EXPECT_NEAR(chi_square_tail(3.325112843066815, 9), 0.95, 1e-12);
  EXPECT_NEAR(chi_square_tail(135.80672317102676, 100), 0.01, 1e-12);
  for (const double x : {0.1, 1.0, 5.0, 40.0}) {
    EXPECT_NEAR(chi_square_tail(x, 2) / std::exp(-x / 2), 1, 1e-12);
    EXPECT_NEAR(chi_square_tail(x, 1) / std::erfc(std::sqrt(x / 2)), 1, 1e-11);
  }
  EXPECT_EQ(chi_square_tail(0, 3), 1);
  EXPECT_THROW(chi_square_tail(-1, 3), Error);
  EXPECT_THROW(chi_square_tail(1, 0), Error);
}

// Expected values: the regularised incomplete beta function with 40 digits (mpmath 1.3).
TEST(Distributions, StudentIsAccurate) {
  EXPECT_DOUBLE_EQ(student_cdf(0, 5), 0.5);
  expect_relative(student_cdf(-1, 1), 0.25, 1e-13);
  expect_relative(student_cdf(-2, 5), 0.0509697394149291781, 1e-13);
  expect_relative(student_cdf(-2.5, 7.25), 0.0199327603794572893, 1e-13);
  expect_relative(student_cdf(-0.5, 30), 0.310361502442563643, 1e-13);
  expect_relative(student_cdf(-10, 3), 0.00106419952920707503, 1e-12);
  expect_relative(student_cdf(-6, 200.5), 4.5419842959133954e-9, 1e-11);
  EXPECT_DOUBLE_EQ(student_cdf(2, 5), 1 - student_cdf(-2, 5));
  EXPECT_THROW(student_cdf(1, 0), Error);
}

}  // namespace
}  // namespace d5
