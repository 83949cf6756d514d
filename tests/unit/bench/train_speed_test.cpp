// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/train_speed.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace d5 {
namespace {

// Rate 5/6; what each value did beyond it is 1/6 four times and -4/6; t(0.975, 4) = 2.776445.
TEST(TrainSpeed, ArithmeticByHand) {
  const std::vector<double> work(5, 1.0), seconds{1, 1, 1, 1, 2};
  EXPECT_NEAR(*relative_error_of_rate(work, seconds), 2.776445 * std::sqrt(20.0 / 36 * 5 / 4) / 5, 1e-6);
}

TEST(TrainSpeed, AnEvenRateIsCertainHoweverUnevenTheSteps) {
  const std::vector<double> work{64, 64, 64, 64, 64, 16}, seconds{2, 2, 2, 2, 2, 0.5};
  EXPECT_NEAR(*relative_error_of_rate(work, seconds), 0, 1e-12);
}

TEST(TrainSpeed, FewValuesHaveNoInterval) {
  const std::vector<double> four(4, 1.0), five(5, 1.0), none(5, 0.0);
  EXPECT_FALSE(relative_error_of_rate(four, four));
  EXPECT_FALSE(relative_error_of_rate(four, five));
  EXPECT_FALSE(relative_error_of_rate(none, five));
  EXPECT_TRUE(relative_error_of_rate(five, five));
}

}  // namespace
}  // namespace d5
