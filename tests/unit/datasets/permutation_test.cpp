// SPDX-License-Identifier: Apache-2.0
#include "d5/datasets/permutation.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <vector>

namespace d5 {
namespace {

TEST(Permutation, IsABijectionOfEverySize) {
  std::vector<Index> sizes;
  for (Index n = 0; n <= 300; ++n) sizes.push_back(n);
  for (const Index n : {1023, 1024, 1025, 4096, 9999, 50000, 65535, 65536, 65537, 1000003}) sizes.push_back(n);
  for (const Index n : sizes) {
    const Permutation order(n, Rng(7, static_cast<uint64_t>(n)));
    std::vector<bool> seen(static_cast<size_t>(n));
    for (Index p = 0; p < n; ++p) {
      const Index i = order(p);
      ASSERT_TRUE(i >= 0 && i < n) << "n " << n;
      ASSERT_FALSE(seen[static_cast<size_t>(i)]) << i << " comes twice, n " << n;
      seen[static_cast<size_t>(i)] = true;
    }
    EXPECT_THROW(order(n), Error);
    EXPECT_THROW(order(-1), Error);
  }
}

TEST(Permutation, WalksRarelyAndKeepsHugeSizesInRange) {
  const Index n = (Index{1} << 40) + 12345;
  const Permutation order(n, Rng(1));
  for (Index p = n - 1000; p < n; ++p) EXPECT_LT(order(p), n);
}

// The chi-square statistic of counts that should be equal, as a standard normal (Wilson and Hilferty, 1931).
double deviation(const std::vector<double>& counts, double expected) {
  double sum = 0;
  for (const double count : counts) sum += (count - expected) * (count - expected) / expected;
  const double k = static_cast<double>(counts.size()) - 1;
  return (std::cbrt(sum / k) - (1 - 2 / (9 * k))) / std::sqrt(2 / (9 * k));
}

// Fixed seeds: a value beyond 5 would come by chance once in 3.5 million.
TEST(Permutation, SmallOnesAreUniform) {
  std::map<std::vector<Index>, double> counts;
  const int draws = 48000;
  for (uint64_t seed = 0; seed < draws; ++seed) {
    const Permutation order(4, Rng(seed));
    ++counts[{order(0), order(1), order(2), order(3)}];
  }
  ASSERT_EQ(counts.size(), 24u);
  std::vector<double> all;
  for (const auto& [order, count] : counts) all.push_back(count);
  EXPECT_LT(deviation(all, draws / 24.0), 5);
}

TEST(Permutation, PositionsAndNeighboursAreUniform) {
  const Index n = 97;
  const int draws = 20000;
  for (const Index position : {Index{0}, n / 2, n - 1}) {
    std::vector<double> at(n), step(n - 1);
    for (uint64_t seed = 0; seed < draws; ++seed) {
      const Permutation order(n, Rng(seed, 3));
      const Index here = order(position), next = order((position + 1) % n);
      ++at[static_cast<size_t>(here)];
      ++step[static_cast<size_t>((next - here + n) % n - 1)];
    }
    EXPECT_LT(deviation(at, draws / double(n)), 5) << "position " << position;
    EXPECT_LT(deviation(step, draws / double(n - 1)), 5) << "position " << position;
  }
}

// Of a random permutation of n about one element stays where it was, and neighbours do not rise more often than fall.
TEST(Permutation, ALargeOneLooksRandom) {
  const Index n = 1000000;
  const Permutation order(n, Rng(11));
  Index fixed = 0, rising = 0, previous = -1;
  for (Index p = 0; p < n; ++p) {
    const Index i = order(p);
    fixed += i == p;
    rising += i > previous;
    previous = i;
  }
  EXPECT_LT(fixed, 12);  // Poisson(1): P(>= 12) = 8e-10
  // The number of rises has variance (n + 1) / 12.
  EXPECT_LT(std::abs(double(rising) - n / 2.0), 5 * std::sqrt((n + 1) / 12.0));
}

}  // namespace
}  // namespace d5
