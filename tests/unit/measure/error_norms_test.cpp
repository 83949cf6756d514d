// SPDX-License-Identifier: Apache-2.0
// Expected numbers are worked out by hand.
#include "d5/measure/error_norms.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "d5/core/error.hpp"

namespace d5 {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
const double nan = std::nan("");

TEST(ErrorNorms, ByHand) {
  const std::vector<double> expected{1, -8, 3, 0}, actual{1, -5, 7, 0};  // differences 0, 3, 4, 0
  const ErrorNorms e = error_norms(expected, actual);
  EXPECT_EQ(e.l1, 7);
  EXPECT_EQ(e.l2, 5);
  EXPECT_EQ(e.linf, 4);
  EXPECT_EQ(e.linf_relative, 0.5);
  EXPECT_EQ(e.compared, 4);
  EXPECT_EQ(e.worst_index, 2);
  EXPECT_EQ(e.worst_expected, 3);
  EXPECT_EQ(e.worst_actual, 7);
  EXPECT_EQ(e.not_finite, 0);
}

TEST(ErrorNorms, EqualAndEmpty) {
  const std::vector<double> x{2, infinity, nan, -infinity};
  const ErrorNorms same = error_norms(x, x);
  EXPECT_EQ(same.l1 + same.l2 + same.linf + same.linf_relative, 0);
  EXPECT_EQ(same.not_finite, 0);
  EXPECT_EQ(same.worst_index, 0);
  const ErrorNorms none = error_norms({}, {});
  EXPECT_EQ(none.compared, 0);
  EXPECT_EQ(none.worst_index, -1);
}

TEST(ErrorNorms, NotFiniteIsTheWorst) {
  const std::vector<double> expected{1, 2, infinity, 4}, actual{100, nan, -infinity, 4};
  const ErrorNorms e = error_norms(expected, actual);
  EXPECT_EQ(e.not_finite, 2);
  EXPECT_EQ(e.linf, infinity);
  EXPECT_EQ(e.l1, infinity);
  EXPECT_EQ(e.l2, infinity);
  EXPECT_EQ(e.linf_relative, infinity);
  EXPECT_EQ(e.worst_index, 1);
}

TEST(ErrorNorms, AgainstZerosTheRelativeErrorIsInfinite) {
  const std::vector<double> expected{0, 0}, actual{0, 1e-9};
  EXPECT_EQ(error_norms(expected, actual).linf_relative, infinity);
}

TEST(ErrorNorms, SizesMustAgree) {
  const std::vector<double> two{1, 2}, one{1};
  EXPECT_THROW(error_norms(two, one), Error);
}

}  // namespace
}  // namespace d5
