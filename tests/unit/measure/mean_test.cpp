// SPDX-License-Identifier: Apache-2.0
#include "d5/measure/mean.hpp"

#include <gtest/gtest.h>

namespace d5 {
namespace {

template <class T>
concept HasMean = requires(std::span<const T> values) {
  mean(values);
};
static_assert(HasMean<Cost> && HasMean<Rate>);
static_assert(!HasMean<Ratio>, "ratios must not be averaged");

TEST(Mean, FollowsTheKindOfTheUnit) {
  const std::vector<Cost> costs = {{1}, {2}, {6}};
  EXPECT_DOUBLE_EQ(mean(std::span<const Cost>(costs)).value, 3);
  // The same work at 10 and at 40 per second takes 1/10 + 1/40 s: 2 / 0.125 = 16 per second, not 25.
  const std::vector<Rate> rates = {{10}, {40}};
  EXPECT_DOUBLE_EQ(mean(std::span<const Rate>(rates)).value, 16);
  const std::vector<Ratio> ratios = {{2}, {0.5}, {8}};
  const LabelledMean last_resort = geometric_mean_last_resort(ratios);
  EXPECT_DOUBLE_EQ(last_resort.value, 2);
  EXPECT_EQ(last_resort.label, "geometric mean of ratios");
}

TEST(Mean, UnitsKnowTheirKind) {
  EXPECT_EQ(kind_of("s"), Kind::cost);
  EXPECT_EQ(kind_of("GFLOP/s"), Kind::rate);
  EXPECT_EQ(kind_of("x"), Kind::ratio);
  EXPECT_EQ(kind_of("furlong"), std::nullopt);
  EXPECT_EQ(mean_of(Kind::cost), "arithmetic");
  EXPECT_EQ(mean_of(Kind::rate), "harmonic");
  EXPECT_EQ(mean_of(Kind::ratio), "none");
  const std::vector<double> values = {10, 40};
  EXPECT_DOUBLE_EQ(*mean_of(Kind::cost, values), 25);
  EXPECT_DOUBLE_EQ(*mean_of(Kind::rate, values), 16);
  EXPECT_FALSE(mean_of(Kind::ratio, values));
}

TEST(Mean, RefusesWhatHasNoMean) {
  EXPECT_THROW(mean(std::span<const Cost>{}), Error);
  const std::vector<Rate> stopped = {{10}, {0}};
  EXPECT_THROW(mean(std::span<const Rate>(stopped)), Error);
}

}  // namespace
}  // namespace d5
