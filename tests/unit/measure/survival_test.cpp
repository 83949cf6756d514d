// SPDX-License-Identifier: Apache-2.0
#include "d5/measure/survival.hpp"

#include <gtest/gtest.h>

#include "d5/measure/proportion.hpp"

namespace d5 {
namespace {

// Freireich et al., 1963: weeks of remission, as in Kalbfleisch and Prentice, The Statistical Analysis of Failure Time
// Data, table 1.4; a + is a censored one.
const std::vector<Lifetime> treated{{6},         {6},         {6},         {6, false}, {7},         {9, false},
                                    {10},        {10, false}, {11, false}, {13},       {16},        {17, false},
                                    {19, false}, {20, false}, {22},        {23},       {25, false}, {32, false},
                                    {32, false}, {34, false}, {35, false}};
const std::vector<Lifetime> control{{1}, {1}, {2},  {2},  {3},  {4},  {4},  {5},  {5},  {8}, {8},
                                    {8}, {8}, {11}, {11}, {12}, {12}, {15}, {17}, {22}, {23}};

TEST(Survival, CurveIsThatOfTheTextbook) {
  const auto curve = kaplan_meier(treated);
  ASSERT_EQ(curve.size(), 7u);
  const double times[] = {6, 7, 10, 13, 16, 22, 23}, shares[] = {0.857, 0.807, 0.753, 0.690, 0.627, 0.538, 0.448};
  for (size_t i = 0; i < 7; ++i) {
    EXPECT_EQ(curve[i].time, times[i]);
    EXPECT_NEAR(curve[i].share, shares[i], 5e-4);
  }
}

TEST(Survival, MedianAndItsIntervalAreThoseOfR) {
  // survfit(Surv(t, s) ~ 1, conf.type = "log-log")
  const SurvivalMedian of_treated = survival_median(treated);
  EXPECT_EQ(of_treated.median, 23);
  EXPECT_EQ(of_treated.low, 13);
  EXPECT_FALSE(of_treated.high);
  const SurvivalMedian of_control = survival_median(control);
  EXPECT_EQ(of_control.median, 8);
  EXPECT_EQ(of_control.low, 4);
  EXPECT_EQ(of_control.high, 11);
}

TEST(Survival, RunsThatNeverGetThereAreNotDropped) {
  const std::vector<Lifetime> mostly_missed{{10}, {100, false}, {100, false}};
  EXPECT_FALSE(survival_median(mostly_missed).median);
  EXPECT_FALSE(mlperf_score(mostly_missed));
}

TEST(Survival, MlperfScoreIsTheMeanWithoutTheEnds) {
  const std::vector<Lifetime> runs{{5}, {1}, {2}, {3}, {100}};
  EXPECT_DOUBLE_EQ(*mlperf_score(runs), (2 + 3 + 5) / 3.0);
  const std::vector<Lifetime> one_missed{{5}, {1}, {2}, {3}, {4, false}};  // the missed one is the slowest
  EXPECT_DOUBLE_EQ(*mlperf_score(one_missed), (2 + 3 + 5) / 3.0);
  EXPECT_FALSE(mlperf_score(std::vector<Lifetime>{{1}, {2}}));
}

// Newcombe, 1998, table I: the score interval without continuity correction.
TEST(Proportion, WilsonIntervalsArePublishedOnes) {
  const auto check = [](int64_t right, int64_t of, double low, double high) {
    const Interval interval = wilson_interval(right, of);
    EXPECT_NEAR(interval.low, low, 5e-5) << right << " of " << of;
    EXPECT_NEAR(interval.high, high, 5e-5) << right << " of " << of;
  };
  check(81, 263, 0.2553, 0.3662);
  check(15, 148, 0.0624, 0.1605);
  check(0, 20, 0.0000, 0.1611);
  check(1, 29, 0.0061, 0.1718);
  EXPECT_ANY_THROW(wilson_interval(3, 2));
}

}  // namespace
}  // namespace d5
