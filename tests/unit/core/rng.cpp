// SPDX-License-Identifier: Apache-2.0
#include "d5/core/rng.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "d5/core/parallel.hpp"

namespace d5 {
namespace {

using testing::Each;
using testing::ElementsAre;

// The known-answer vectors published with Random123 (Salmon et al.).
TEST(Philox, PublishedVectors) {
  EXPECT_THAT(philox4x32({0, 0, 0, 0}, {0, 0}), ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  constexpr uint32_t ones = 0xffffffff;
  EXPECT_THAT(philox4x32({ones, ones, ones, ones}, {ones, ones}),
              ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
              ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

TEST(Rng, NumbersAreTheHalvesOfBlocks) {
  EXPECT_EQ(Rng(0).bits(0), 0xe169c58d6627e8d5);
  EXPECT_EQ(Rng(0).bits(1), 0x9b00dbd8bc57ac4c);
  const auto block = philox4x32({5, 1, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0});
  EXPECT_EQ(Rng(0x299f31d0a4093822, 0x0370734413198a2e).bits(2 * 0x100000005 + 1), block[2] | uint64_t{block[3]} << 32);
  EXPECT_NE(Rng(1).bits(0), Rng(2).bits(0));
  EXPECT_NE(Rng(1, 1).bits(0), Rng(1, 2).bits(0));
  Rng sequential(5);
  for (uint64_t i = 0; i < 10; ++i) EXPECT_EQ(sequential.next_uniform(), Rng(5).uniform(i));
  EXPECT_EQ(sequential.next_below(100), Rng(5).below(10, 100));
}

// Fowler, Noll and Vo's published values of the 64-bit FNV-1a hash.
TEST(Rng, StreamsOfNames) {
  EXPECT_EQ(stream_of(""), 0xcbf29ce484222325u);
  EXPECT_EQ(stream_of("a"), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(stream_of("foobar"), 0x85944171f73967e8u);
}

TEST(Rng, FillsDoNotDependOnTheNumberOfThreads) {
  constexpr Index n = 100'003;
  for (const DType type : {DType::f32, DType::f64, DType::bf16, DType::i8, DType::i4, DType::boolean}) {
    std::vector<Tensor> results;
    for (const int count : {1, 2, 3}) {
      set_threads(count);
      for (const int which : {0, 1, 2}) {
        const Tensor t(type, {n});
        if (which == 0) fill_uniform(t, Rng(11, 4), -8, 8);
        if (which == 1) fill_normal(t, Rng(11, 4), 1, 2);
        if (which == 2) fill_integers(t, Rng(11, 4), -5, 5);
        results.push_back(t);
      }
    }
    set_threads(1);
    for (size_t i = 3; i < results.size(); ++i)
      EXPECT_EQ(std::memcmp(results[i].data(), results[i % 3].data(), results[i].bytes()), 0) << name(type) << " " << i;
  }
}

TEST(Rng, ElementsAreNumbersOfTheStream) {
  const Rng rng(3, 9);
  const Tensor u(DType::f64, {2049}), g(DType::f64, {2049}), k(DType::i64, {2049});
  fill_uniform(u, rng, -1, 3);
  fill_normal(g, rng, 10, 2);
  fill_integers(k, rng, -4, 5);
  for (size_t i : {0, 1, 2, 1023, 1024, 2047, 2048}) {
    EXPECT_EQ(u.values<double>()[i], -1 + 4 * rng.uniform(i));
    EXPECT_EQ(g.values<double>()[i], 10 + 2 * rng.normal(i));
    EXPECT_EQ(k.values<int64_t>()[i], -4 + static_cast<int64_t>(rng.below(i, 10)));
  }
}

struct Moments {
  double mean = 0, variance = 0, skewness = 0, kurtosis = 0;
};
Moments moments(std::span<const double> x) {
  Moments m;
  const auto n = static_cast<double>(x.size());
  m.mean = std::accumulate(x.begin(), x.end(), 0.0) / n;
  double two = 0, three = 0, four = 0;
  for (const double v : x) {
    const double d = v - m.mean;
    two += d * d, three += d * d * d, four += d * d * d * d;
  }
  m.variance = two / n;
  m.skewness = three / n / std::pow(m.variance, 1.5);
  m.kurtosis = four / n / (m.variance * m.variance);
  return m;
}

// Kolmogorov's distance between the sample and a distribution function.
template <class F>
double distance(std::vector<double> x, F distribution) {
  std::ranges::sort(x);
  double most = 0;
  const auto n = static_cast<double>(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double f = distribution(x[i]), at = static_cast<double>(i);
    most = std::max({most, f - at / n, (at + 1) / n - f});
  }
  return most;
}

// Bounds are four standard errors (seeds are fixed, so the outcome is too); Kolmogorov's 0.1 % point is 1.95 / sqrt(n).
TEST(Rng, UniformStatistics) {
  constexpr Index n = 1'000'000;
  const Tensor t(DType::f64, {n});
  fill_uniform(t, Rng(2024), 0, 1);
  const auto x = t.values<const double>();
  EXPECT_TRUE(std::ranges::all_of(x, [](double v) { return v >= 0 && v < 1; }));
  const Moments m = moments(x);
  EXPECT_NEAR(m.mean, 0.5, 4 * std::sqrt(1.0 / 12 / n));
  EXPECT_NEAR(m.variance, 1.0 / 12, 4 * std::sqrt(1.0 / 180 / n));
  EXPECT_LT(distance({x.begin(), x.end()}, [](double v) { return v; }), 1.95 / std::sqrt(n));
  double correlation = 0;  // of neighbours, which come from one block or from two
  for (size_t i = 1; i < x.size(); ++i) correlation += (x[i] - 0.5) * (x[i - 1] - 0.5) * 12;
  EXPECT_NEAR(correlation / n, 0, 4 / std::sqrt(n));
}

TEST(Rng, NormalStatistics) {
  constexpr Index n = 1'000'000;
  const Tensor t(DType::f64, {n});
  fill_normal(t, Rng(2025), 0, 1);
  const auto x = t.values<const double>();
  const Moments m = moments(x);
  EXPECT_NEAR(m.mean, 0, 4 * std::sqrt(1.0 / n));
  EXPECT_NEAR(m.variance, 1, 4 * std::sqrt(2.0 / n));
  EXPECT_NEAR(m.skewness, 0, 4 * std::sqrt(6.0 / n));
  EXPECT_NEAR(m.kurtosis, 3, 4 * std::sqrt(24.0 / n));
  EXPECT_LT(distance({x.begin(), x.end()}, [](double v) { return 0.5 * std::erfc(-v / std::sqrt(2.0)); }),
            1.95 / std::sqrt(n));
  EXPECT_GT(*std::ranges::max_element(x), 4.0);  // the tails are there: expected near 4.9
}

TEST(Rng, IntegersAreInclusiveAndEven) {
  const Tensor t(DType::i8, {120'000});
  fill_integers(t, Rng(8), -2, 3);
  std::vector<double> counts(6);
  for (const int8_t v : t.values<int8_t>()) ++counts.at(static_cast<size_t>(v + 2));
  double chi_square = 0;
  for (const double c : counts) chi_square += (c - 20'000) * (c - 20'000) / 20'000;
  EXPECT_LT(chi_square, 20.5);  // the 99.9 % point of 5 degrees of freedom
  const Tensor same(DType::f32, {10});
  fill_integers(same, Rng(8), 4, 4);
  EXPECT_THAT(same.values<float>(), Each(4.0f));
  const Tensor all(DType::i64, {2});
  fill_integers(all, Rng(0), INT64_MIN, INT64_MAX);
  EXPECT_EQ(all.values<int64_t>()[0], static_cast<int64_t>(0xe169c58d6627e8d5 + (uint64_t{1} << 63)));
}

TEST(Rng, ShuffleIsAPermutationAndEven) {
  std::vector<int64_t> counts(24);
  for (uint64_t seed = 0; seed < 24'000; ++seed) {
    std::vector<int64_t> x{0, 1, 2, 3};
    shuffle(x, Rng(seed));
    std::vector<int64_t> sorted = x;
    std::ranges::sort(sorted);
    ASSERT_THAT(sorted, ElementsAre(0, 1, 2, 3));
    int64_t rank = 0;  // of the permutation: how many smaller ones follow each
    for (size_t i = 0; i < 4; ++i)
      rank = rank * static_cast<int64_t>(4 - i) +
             std::count_if(x.begin() + i, x.end(), [&](int64_t v) { return v < x[i]; });
    ++counts.at(static_cast<size_t>(rank));
  }
  double chi_square = 0;
  for (const auto c : counts) chi_square += static_cast<double>((c - 1000) * (c - 1000)) / 1000;
  EXPECT_LT(chi_square, 49.7);  // the 99.9 % point of 23 degrees of freedom
  shuffle({}, Rng(1));
}

TEST(Rng, WrongUseIsAnError) {
  EXPECT_THROW(Rng(1).below(0, 0), Error);
  EXPECT_THROW(fill_integers(Tensor(DType::i8, {1}), Rng(1), 2, 1), Error);
  EXPECT_THROW(fill_uniform(Tensor(DType::string, {1}), Rng(1), 0, 1), Error);
  EXPECT_THROW(fill_normal(Tensor(), Rng(1), 0, 1), Error);
}

}  // namespace
}  // namespace d5
