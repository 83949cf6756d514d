// SPDX-License-Identifier: Apache-2.0
#include "d5/measure/stopping.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "d5/core/error.hpp"

namespace d5 {
namespace {

size_t run(StoppingRule& rule, double spread, uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::normal_distribution<double> normal(0, spread);
  rule.reset();
  size_t n = 0;
  for (; !rule.done() && n < 1'000'000; ++n) rule.add(0.001 * std::exp(normal(rng)));
  return n;
}

TEST(Stopping, ConvergesOnlyAtTheScheduledLooks) {
  const auto rule = make_stopping_rule("interval", {});
  size_t quiet = 0, noisy = 0;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    for (const double spread : {0.001, 0.05}) {
      size_t n = run(*rule, spread, seed);
      EXPECT_EQ(rule->why(), "converged");
      (spread < 0.01 ? quiet : noisy) += n;
      while (n > 40) {
        ASSERT_EQ(n % 2, 0u);
        n /= 2;
      }
      EXPECT_EQ(n, 40u);
    }
  }
  EXPECT_LE(quiet, 50u * 160);
  // 1.96 * 1.2533 * 5 % / sqrt(n) <= 1 % asks for n >= 151 independent samples.
  EXPECT_GE(noisy, 50u * 160);
}

TEST(Stopping, FallsBackOnTimeAndSamples) {
  StoppingOptions options{.max_seconds = 0.1005};
  auto rule = make_stopping_rule("interval", options);
  rule->reset();
  for (int i = 0; i < 101; ++i) {
    ASSERT_FALSE(rule->done());
    EXPECT_EQ(rule->why(), "");
    rule->add(i % 2 == 0 ? 0.0005 : 0.0015);  // never converges: half at either side
  }
  EXPECT_TRUE(rule->done());
  EXPECT_EQ(rule->why(), "max_time");

  options = {.max_samples = 100};
  rule = make_stopping_rule("interval", options);
  EXPECT_EQ(run(*rule, 2.0, 1), 100u);
  EXPECT_EQ(rule->why(), "max_samples");
}

TEST(Stopping, CountsTheIterationsOfABatch) {
  const auto rule = make_stopping_rule("fixed", {.max_seconds = 1, .batch = 100, .first_look = 1000});
  rule->reset();
  for (int i = 0; i < 10; ++i) rule->add(0.00101);
  EXPECT_EQ(rule->why(), "max_time");
}

TEST(Stopping, FixedTakesWhatItWasTold) {
  const auto rule = make_stopping_rule("fixed", {.first_look = 17});
  EXPECT_EQ(run(*rule, 0.5, 1), 17u);
  EXPECT_EQ(rule->why(), "fixed");
  rule->reset();
  EXPECT_FALSE(rule->done());
}

TEST(Stopping, RefusesNonsense) {
  EXPECT_THROW(make_stopping_rule("intervall", {}), UsageError);
  EXPECT_THROW(make_stopping_rule("interval", {.relative_width = 0}), UsageError);
  EXPECT_THROW(make_stopping_rule("interval", {.max_seconds = -1}), UsageError);
}

}  // namespace
}  // namespace d5
