// SPDX-License-Identifier: Apache-2.0
#include "d5/measure/schedule.hpp"

#include <gtest/gtest.h>

#include <set>

#include "d5/core/error.hpp"

namespace d5 {
namespace {

TEST(Schedule, TwoChildrenAlternateAsAbba) {
  const auto order = latin_rounds(2, 200, 7);
  ASSERT_EQ(order.size(), 200u);
  int starts_with_first = 0;
  for (size_t block = 0; block < 100; ++block) {
    EXPECT_EQ(order[2 * block][0], order[2 * block + 1][1]);
    EXPECT_EQ(order[2 * block][1], order[2 * block + 1][0]);
    EXPECT_NE(order[2 * block][0], order[2 * block][1]);
    starts_with_first += order[2 * block][0] == 0;
  }
  EXPECT_GT(starts_with_first, 25);  // both kinds of block are drawn
  EXPECT_LT(starts_with_first, 75);
}

TEST(Schedule, EveryChildTakesEveryPlaceOnceInASquare) {
  const size_t children = 5;
  const auto order = latin_rounds(children, 3 * children, 11);
  for (size_t square = 0; square < 3; ++square) {
    for (size_t place = 0; place < children; ++place) {
      std::set<size_t> seen;
      for (size_t row = 0; row < children; ++row) seen.insert(order[square * children + row][place]);
      EXPECT_EQ(seen.size(), children);
    }
  }
  for (const auto& row : order) EXPECT_EQ(std::set<size_t>(row.begin(), row.end()).size(), children);
}

TEST(Schedule, DependsOnTheSeedOnly) {
  EXPECT_EQ(latin_rounds(4, 10, 3), latin_rounds(4, 10, 3));
  EXPECT_NE(latin_rounds(4, 10, 3), latin_rounds(4, 10, 4));
  EXPECT_EQ(latin_rounds(3, 7, 1).size(), 7u);
  EXPECT_THROW(latin_rounds(0, 1, 1), Error);
}

}  // namespace
}  // namespace d5
