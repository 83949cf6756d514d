// SPDX-License-Identifier: Apache-2.0
#include "d5/measure/trimmed_mean.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace d5 {
namespace {

// Expected values: the formulas with 40 digits (mpmath 1.3). The first data are those of SciPy's manual for this test.
TEST(TrimmedTest, AgreesWithTheFormulas) {
  const auto odd = trimmed_test({56, 128.6, 12, 123.8, 64.34, 78, 763.3}, {1.1, 2.9, 4.2});
  ASSERT_TRUE(odd);
  EXPECT_NEAR(odd->first_mean, 90.148, 1e-12);
  EXPECT_NEAR(odd->t, 4.5915986911819983, 1e-12);
  EXPECT_NEAR(odd->degrees, 4.0178492705992177, 1e-12);
  EXPECT_NEAR(odd->p_smaller, 0.99500545373960789, 1e-12);
  const auto faster = trimmed_test({9, 9, 10, 10, 11, 12, 9, 10, 11, 10}, {12, 12, 13, 13, 14, 15, 12, 13, 14, 30});
  ASSERT_TRUE(faster);
  EXPECT_NEAR(faster->t, -4.8291213938658144, 1e-12);
  EXPECT_NEAR(faster->p_smaller, 0.00035116889467078171, 1e-15);
}

// One of five that never got there is trimmed away; two are not.
TEST(TrimmedTest, RunsThatNeverGotThereAreTheSlowest) {
  const double never = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(trimmed_test({3, 4, 5, 4, never}, {4, 4, 5, 6, 5}));
  EXPECT_FALSE(trimmed_test({3, 4, 5, never, never}, {4, 4, 5, 6, 5}));
  EXPECT_FALSE(trimmed_test({3}, {4, 4, 5, 6, 5}));
}

TEST(TrimmedTest, WithoutAnySpread) {
  EXPECT_EQ(trimmed_test({3, 3, 3}, {4, 4, 4})->p_smaller, 0);
  EXPECT_EQ(trimmed_test({4, 4, 4}, {4, 4, 4})->p_smaller, 1);
}

}  // namespace
}  // namespace d5
