// SPDX-License-Identifier: Apache-2.0
#include "d5/measure/clock.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "d5/core/error.hpp"

namespace d5 {
namespace {

TEST(Clock, CountsSecondsAndNeverGoesBack) {
  const double start = now_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const double passed = now_seconds() - start;
  EXPECT_GE(passed, 0.02);
  EXPECT_LT(passed, 5);
}

TEST(Clock, CalibrationIsPositiveAndSmall) {
  const TimerCalibration timer = calibrate_timer();
  EXPECT_GT(timer.overhead_s, 0);
  EXPECT_GT(timer.resolution_s, 0);
  EXPECT_LT(timer.overhead_s, 1e-3);
  EXPECT_LT(timer.resolution_s, 1e-2);
}

// By hand: at e = 1 % a sample must be 400 times the larger of the two.
TEST(Clock, BatchesExactlyAsManyIterationsAsTheRuleAsks) {
  const TimerCalibration timer{.overhead_s = 25e-9, .resolution_s = 10e-9};  // needs samples of 10 us
  EXPECT_EQ(iterations_per_sample(10e-6, 0.01, timer), 1);
  EXPECT_EQ(iterations_per_sample(1.0, 0.01, timer), 1);
  EXPECT_EQ(iterations_per_sample(1e-6, 0.01, timer), 10);
  EXPECT_EQ(iterations_per_sample(0.999e-6, 0.01, timer), 11);
  EXPECT_EQ(iterations_per_sample(9.9e-6, 0.01, timer), 2);
  EXPECT_EQ(iterations_per_sample(1e-6, 0.1, timer), 1);
  EXPECT_EQ(iterations_per_sample(1e-9, 0.01, timer), 10000);
}

TEST(Clock, ResolutionCountsWhereItIsTheLargerOne) {
  EXPECT_EQ(iterations_per_sample(1e-6, 0.01, {.overhead_s = 25e-9, .resolution_s = 1e-6}), 400);
}

TEST(Clock, RefusesWhatHasNoAnswer) {
  EXPECT_THROW(iterations_per_sample(0, 0.01, {1e-8, 1e-8}), Error);
  EXPECT_THROW(iterations_per_sample(1e-6, 0, {1e-8, 1e-8}), Error);
}

}  // namespace
}  // namespace d5
