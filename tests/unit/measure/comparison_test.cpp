// SPDX-License-Identifier: Apache-2.0
#include "d5/measure/comparison.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "d5/core/error.hpp"

namespace d5 {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

// Depression scores of Hollander and Wolfe (Nonparametric Statistical Methods), two ties broken by 1e-5.
const std::vector<double> before = {1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30};
const std::vector<double> after = {0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06001, 3.14, 1.29001};

TEST(MannWhitney, ExactAgreesWithScipy) {
  // scipy 1.17.1: mannwhitneyu(before, after, method='exact')
  const MannWhitney test = mann_whitney(before, after);
  EXPECT_EQ(test.u, 58);
  EXPECT_NEAR(test.p, 0.13591114767585355, 1e-12);
}

TEST(MannWhitney, TiesArePermuted) {
  // All 462 splits enumerated with numpy: P(rank sum <= observed) = 0.08658008658008658.
  const MannWhitney test = mann_whitney(std::vector<double>{1, 2, 2, 3, 5}, std::vector<double>{2, 3, 3, 4, 6, 6});
  EXPECT_NEAR(test.p, 0.17316017316017315, 1e-12);
}

TEST(MannWhitney, NormalForLargeSamples) {
  std::vector<double> a, b;
  for (int i = 0; i < 40; ++i) {
    a.push_back(i);
    b.push_back(i * 0.9 + 3.03);
  }
  const MannWhitney test = mann_whitney(a, b);  // scipy 1.17.1, method='asymptotic', with continuity
  EXPECT_EQ(test.u, 756);
  EXPECT_NEAR(test.p, 0.6755238797807038, 1e-12);
}

TEST(HodgesLehmann, ShiftAndIntervalByEnumeration) {
  // numpy: median of the 81 differences; rank 18 from all 48,620 splits (P(U <= 17) <= 0.025 < P(U <= 18)).
  EXPECT_NEAR(hodges_lehmann(before, after), 0.56, 1e-12);
  const auto interval = hodges_lehmann_interval(before, after);
  ASSERT_TRUE(interval);
  EXPECT_NEAR(interval->low, -0.37, 1e-12);
  EXPECT_NEAR(interval->high, 1.183, 1e-12);
}

TEST(HodgesLehmann, RefusesTooFew) {
  // 2 / C(6, 3) = 0.1 > 0.05, 2 / C(8, 4) = 0.029.
  const std::vector<double> x = {1, 2, 3, 4};
  EXPECT_FALSE(hodges_lehmann_interval(std::span(x).first(3), std::span(x).first(3)));
  EXPECT_TRUE(hodges_lehmann_interval(x, x));
}

TEST(SignTest, UnitsNeeded) {
  EXPECT_EQ(sign_test_units(0.05), 6u);
  EXPECT_EQ(sign_test_units(0.05, 2), 7u);
  EXPECT_EQ(sign_test_units(0.05, 20), 10u);
  EXPECT_EQ(sign_test_units(1.0 / 16), 5u);
  EXPECT_EQ(sturdy_sign_test_units(0.05), 9u);      // 2 (1 + 9) / 2^9 = 3.9 %; with 8: 7.0 %
  EXPECT_EQ(sturdy_sign_test_units(0.05, 3), 11u);  // 2 (1 + 11) / 2^11 = 1.2 % <= 1.7 %; with 10: 2.1 %
  EXPECT_FALSE(sign_test_interval({1, 2, 3, 4, 5}));
  const auto interval = sign_test_interval({3, 1, 2, 6, 5, 4});
  EXPECT_EQ(interval->low, 1);
  EXPECT_EQ(interval->high, 6);
}

TEST(SignTest, PValue) {
  // 8 of 10 positive: 2 (1 + 10 + 45) / 1024; a zero is dropped.
  EXPECT_NEAR(sign_test(std::vector<double>{1, 1, 1, 1, -1, 1, 1, -1, 1, 1, 0}), 0.109375, 1e-14);
}

TEST(Correction, HolmAndBonferroni) {
  // By hand from the definition: 4 x 0.005, 3 x 0.01, 2 x 0.03, and 1 x 0.04 raised to the one before.
  const std::vector<double> p = {0.01, 0.04, 0.03, 0.005};
  EXPECT_THAT(holm(p), ElementsAre(DoubleNear(0.03, 1e-15), DoubleNear(0.06, 1e-15), DoubleNear(0.06, 1e-15),
                                   DoubleNear(0.02, 1e-15)));
  EXPECT_THAT(bonferroni(p), ElementsAre(DoubleNear(0.04, 1e-15), DoubleNear(0.16, 1e-15), DoubleNear(0.12, 1e-15),
                                         DoubleNear(0.02, 1e-15)));
  EXPECT_THAT(bonferroni(std::vector<double>{0.6, 0.9}), ElementsAre(1, 1));
}

// Launch l has blocks centre[l] - 0.001, centre[l], centre[l] + 0.001.
std::vector<PairedSlices> launches(const std::vector<double>& centres) {
  std::vector<PairedSlices> slices;
  for (size_t l = 0; l < centres.size(); ++l) {
    for (int b = 0; b < 3; ++b) slices.push_back({static_cast<int>(l), b, centres[l] + 0.001 * (b - 1)});
  }
  return slices;
}

TEST(ComparePaired, MedianOfLaunchMedians) {
  const Comparison c = compare_paired(launches({0.02, 0.03, 0.05, 0.04, 0.01, 0.06}));
  EXPECT_NEAR(c.ratio, std::exp(0.035), 1e-12);
  EXPECT_NEAR(c.interval->low, std::exp(0.01), 1e-12);
  EXPECT_NEAR(c.interval->high, std::exp(0.06), 1e-12);
  EXPECT_EQ(c.verdict, Verdict::slower);
  EXPECT_EQ(c.units, 6u);
  EXPECT_EQ(c.unit, "launch");
  EXPECT_EQ(c.note, "");
  EXPECT_NEAR(c.p, 2.0 / 64, 1e-15);
}

TEST(ComparePaired, VerdictsInTheirOrder) {
  EXPECT_EQ(compare_paired(launches({-0.02, -0.03, -0.05, -0.04, -0.01, -0.06})).verdict, Verdict::faster);
  EXPECT_EQ(compare_paired(launches({-0.02, 0.03, 0.05, 0.04, 0.01, 0.06})).verdict, Verdict::unclear);
  // Excludes 1 and lies inside the margin: same comes first.
  EXPECT_EQ(compare_paired(launches({0.002, 0.003, 0.004, 0.003, 0.002, 0.001})).verdict, Verdict::same);
  EXPECT_EQ(compare_paired(launches({0.002, 0.003, 0.004, 0.003, 0.002, 0.001}), 0.001).verdict, Verdict::slower);
  EXPECT_EQ(to_string(Verdict::same), "same");
}

TEST(ComparePaired, RefusesTooFewUnits) {
  const Comparison five = compare_paired(launches({0.02, 0.03, 0.05, 0.04, 0.01}));
  EXPECT_FALSE(five.interval);
  EXPECT_EQ(five.verdict, Verdict::unclear);
  EXPECT_EQ(five.note, "interval n/a: 5 launches, 6 needed");
  // Six launches are enough for one comparison, not for two.
  const Comparison corrected = compare_paired(launches({0.02, 0.03, 0.05, 0.04, 0.01, 0.06}), 0.01, 0.05, 2);
  EXPECT_FALSE(corrected.interval);
  EXPECT_EQ(corrected.verdict, Verdict::unclear);
  EXPECT_THAT(corrected.method, testing::HasSubstr("Bonferroni over 2"));
  EXPECT_THROW(compare_paired({}), Error);
}

TEST(ComparePaired, OneLaunchIsLabelled) {
  std::vector<PairedSlices> slices;
  for (int b = 0; b < 8; ++b) slices.push_back({0, b, 0.02 + 0.001 * b});
  const Comparison c = compare_paired(slices);
  EXPECT_EQ(c.unit, "round");
  EXPECT_EQ(c.units, 8u);
  EXPECT_EQ(c.note, "within one launch");
  EXPECT_EQ(c.verdict, Verdict::slower);
  EXPECT_EQ(compare_paired(std::span(slices).first(4)).note, "within one launch; interval n/a: 4 rounds, 6 needed");
}

TEST(CompareUnpaired, ShiftOfLogs) {
  const std::vector<double> b = {1.00, 1.01, 0.99, 1.005, 0.995, 1.002};
  std::vector<double> a = b;
  for (double& t : a) t *= 1.05;
  const Comparison c = compare_unpaired(a, b);
  EXPECT_NEAR(c.ratio, 1.05, 0.002);
  EXPECT_EQ(c.verdict, Verdict::slower);
  EXPECT_LT(c.interval->low, 1.05);
  EXPECT_GT(c.interval->high, 1.05);
  EXPECT_EQ(compare_unpaired(b, b, 0.02).verdict, Verdict::same);
  EXPECT_EQ(compare_unpaired(b, a).verdict, Verdict::faster);
  const Comparison few = compare_unpaired(std::span(a).first(3), std::span(b).first(3));
  EXPECT_FALSE(few.interval);
  EXPECT_EQ(few.verdict, Verdict::unclear);
  EXPECT_EQ(few.note, "interval n/a: only 3 and 3 launches");
  EXPECT_THROW(compare_unpaired(std::vector<double>{0.0}, b), Error);
}

TEST(HierarchicalBootstrap, LiesWithinTheLaunchesAndRepeats) {
  const auto slices = launches({0.02, 0.03, 0.05, 0.04, 0.01, 0.06});
  const auto interval = hierarchical_bootstrap(slices, 42);
  ASSERT_TRUE(interval);
  EXPECT_GT(interval->low, std::exp(0.009));
  EXPECT_LT(interval->low, std::exp(0.035));
  EXPECT_GT(interval->high, std::exp(0.035));
  EXPECT_LT(interval->high, std::exp(0.061));
  EXPECT_EQ(interval->low, hierarchical_bootstrap(slices, 42)->low);
  EXPECT_FALSE(hierarchical_bootstrap(launches({0.02, 0.03}), 42));
}

}  // namespace
}  // namespace d5
