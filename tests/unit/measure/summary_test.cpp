// SPDX-License-Identifier: Apache-2.0
#include "d5/measure/summary.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "d5/core/error.hpp"

namespace d5 {
namespace {

using testing::Contains;
using testing::IsEmpty;
using testing::StartsWith;

std::vector<double> noise(size_t n, double spread, uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::normal_distribution<double> normal(0, spread);
  std::vector<double> x(n);
  for (double& v : x) v = std::exp(normal(rng));
  return x;
}

TEST(Summary, OfAKnownSample) {
  std::vector<double> x(400);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>((i * 149) % 400 + 1);  // 1 .. 400, shuffled
  const Summary s = summarize(x);
  EXPECT_EQ(s.n, 400u);
  EXPECT_EQ(s.minimum, 1);
  EXPECT_EQ(s.maximum, 400);
  EXPECT_EQ(s.median, 200.5);
  ASSERT_TRUE(s.ci95);
  EXPECT_LE(s.ci95->low, 180);
  EXPECT_GE(s.ci95->high, 221);
  ASSERT_EQ(s.tails.size(), 5u);
  EXPECT_EQ(s.tails[0].p, 0.05);
  EXPECT_DOUBLE_EQ(s.tails[0].value, 20.95);  // numpy.quantile
  EXPECT_EQ(s.tails[4].p, 0.99);
  EXPECT_DOUBLE_EQ(s.tails[4].value, 396.01);
}

TEST(Summary, LeavesOutIntervalsThatDoNotExist) {
  const Summary s = summarize(std::vector<double>{3, 1, 2});
  EXPECT_EQ(s.median, 2);
  EXPECT_FALSE(s.ci95);
  for (const Quantile& q : s.tails) EXPECT_FALSE(q.interval);
}

TEST(Summary, QuietSamplesGiveNoWarning) {
  for (uint64_t seed = 0; seed < 100; ++seed)
    EXPECT_THAT(summarize(noise(2000, 0.05, seed)).warnings, IsEmpty()) << seed;
}

TEST(Summary, WarnsOfTwoModes) {
  auto x = noise(500, 0.01, 1);
  std::mt19937_64 rng(2);
  for (double& v : x) v *= rng() % 5 < 2 ? 1.2 : 1;
  EXPECT_THAT(summarize(x).warnings, Contains(testing::MatchesRegex("bimodal: two modes (19|20).*")));
  // As clear, but a tenth of a percent apart: too small to matter, as with the steps of a clock.
  x = noise(500, 0.00005, 1);
  for (double& v : x) v *= rng() % 5 < 2 ? 1.001 : 1;
  EXPECT_THAT(summarize(x).warnings, IsEmpty());
}

TEST(Summary, WarnsOfDrift) {
  auto x = noise(1000, 0.02, 3);
  for (size_t i = 0; i < x.size(); ++i) x[i] *= 1 + 0.05 * static_cast<double>(i) / 1000;
  EXPECT_THAT(summarize(x).warnings, Contains(StartsWith("drift: +")));
  x = noise(20'000, 0.01, 4);  // significant in so long a run, but 0.2 % in all
  for (size_t i = 0; i < x.size(); ++i) x[i] *= 1 + 0.002 * static_cast<double>(i) / 20'000;
  EXPECT_THAT(summarize(x).warnings, IsEmpty());
}

TEST(Summary, WarnsOfFewEffectiveSamples) {
  std::vector<double> x = noise(20, 0.05, 5), slow;
  for (double v : x) slow.insert(slow.end(), 20, v);
  EXPECT_THAT(summarize(slow).warnings, Contains(StartsWith("dependent samples")));
}

TEST(Summary, RefusesNonsense) {
  EXPECT_THROW(summarize({}), Error);
  EXPECT_THROW(summarize(std::vector<double>{1, std::numeric_limits<double>::quiet_NaN()}), Error);
}

}  // namespace
}  // namespace d5
