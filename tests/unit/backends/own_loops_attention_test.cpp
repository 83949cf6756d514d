// SPDX-License-Identifier: Apache-2.0
// The inner loops of attention, in every instruction set that this processor can run, against sums in double.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "d5/backends/onednn/own/attention_loops.hpp"
#include "d5/measure/isa.hpp"

namespace d5::onednn::own {
namespace {

constexpr double unit = 0x1p-24;
constexpr float infinite = INFINITY;
double exact_exp(double x) { return std::exp(x); }

std::vector<const AttentionLoops*> usable_loops() {
  std::vector<const AttentionLoops*> all{&baseline::attention_table};
#if defined(__x86_64__)
  const Isa& isa = usable_isa();
  if (isa.avx2 && isa.fma && isa.f16c) all.push_back(&avx2::attention_table);
  if (isa.avx512f && isa.avx512bw && isa.avx512dq && isa.avx512vl) all.push_back(&avx512::attention_table);
#endif
  return all;
}

std::vector<float> random_numbers(int64_t n, uint64_t seed) {
  std::vector<float> all(static_cast<size_t>(n));
  for (size_t i = 0; i < all.size(); ++i)
    all[i] = static_cast<float>((i * 2654435761u + seed * 40503u) % 2001) * 1e-3f - 1.0f;
  return all;
}

class OwnLoopsOfAttention : public testing::TestWithParam<const AttentionLoops*> {};

// Sizes below, at and beyond those of a tile, the left factor as rows and as columns, the right one packed and as it
// lies. Numbers are below 1: a sum of k products errs by k + 1 units of k at most.
TEST_P(OwnLoopsOfAttention, Products) {
  const AttentionLoops& l = *GetParam();
  for (const int64_t m : {1, 2, 7, 12, 13, 25, 48})
    for (const int64_t n : {1, 3, 16, 33, 64, 70})
      for (const int64_t k : {1, 5, 37}) {
        const bool transposed = (m + n + k) % 2 == 0, adds = (m + n) % 3 == 0, lies = n % l.width == 0 && k % 3 != 0;
        const std::vector<float> a = random_numbers(m * k, 1), b = random_numbers(k * n, 2);
        const int64_t panels = (n + l.panel - 1) / l.panel, row = panels * l.panel;
        std::vector<float> packed(static_cast<size_t>(panels * k * l.panel), NAN);
        l.pack(packed.data(), k * l.panel, b.data(), n, k, n);
        std::vector<float> y(static_cast<size_t>(m * row), adds ? 0.5f : NAN);
        const LeftFactor left = transposed ? LeftFactor{a.data(), 1, m} : LeftFactor{a.data(), k, 1};
        l.product(left, lies ? Panels{b.data(), l.panel, n} : Panels{packed.data(), k * l.panel, l.panel}, y.data(),
                  row, m, n, k, adds);
        for (int64_t i = 0; i < m; ++i)
          for (int64_t j = 0; j < n; ++j) {
            double sum = adds ? 0.5 : 0;
            for (int64_t d = 0; d < k; ++d)
              sum += static_cast<double>(left.data[i * left.row + d * left.column]) * b[static_cast<size_t>(d * n + j)];
            ASSERT_NEAR(y[static_cast<size_t>(i * row + j)], sum, static_cast<double>((k + 1) * (k + 1)) * unit)
                << m << " x " << n << " x " << k << " at " << i << ", " << j;
          }
      }
}

struct Weights {
  static constexpr int64_t keys = 100, row = 128;
  std::vector<KeyRange> seen{{0, 100}, {0, 1}, {31, 33}, {16, 32}, {40, 40}, {99, 100}, {5, 90}, {50, 53}};
  std::vector<float> x = random_numbers(static_cast<int64_t>(seen.size()) * row, 3);
  Weights() {
    for (float& value : x) value *= 20;
    for (int64_t j = 50; j < 53; ++j)
      x[static_cast<size_t>(7 * row + j)] = -infinite;  // nothing is seen in the last row
    x[6 * row + 20] = -infinite;
  }
  ScoreRows rows(float* data) const { return {data, row, static_cast<int64_t>(seen.size()), {0, keys}, seen.data()}; }
};

// Scores are below 20: an exponential errs by 40 roundings of its argument and 3 of its own, a sum by as many more as
// it has vectors.
TEST_P(OwnLoopsOfAttention, WeightsOfWhatIsSeen) {
  const Weights w;
  std::vector<float> p = w.x;
  GetParam()->softmax(w.rows(p.data()));
  for (size_t i = 0; i < w.seen.size(); ++i) {
    double sum = 0;
    for (int64_t j = w.seen[i].first; j < w.seen[i].last; ++j)
      sum += exact_exp(w.x[i * w.row + static_cast<size_t>(j)]);
    for (int64_t j = 0; j < w.keys; ++j) {
      const auto at = i * w.row + static_cast<size_t>(j);
      const bool seen = j >= w.seen[i].first && j < w.seen[i].last && sum > 0;
      const double wanted = seen ? exact_exp(w.x[at]) / sum : 0;
      ASSERT_NEAR(p[at], wanted, 2 * (40 + 3 + 10) * unit * wanted) << i << ", " << j;
    }
  }
}

// ds = scale p (dp - sum p dp) with |dp| < 20, p <= 1.
TEST_P(OwnLoopsOfAttention, GradientsOfScores) {
  const Weights w;
  std::vector<float> p = w.x, ds = random_numbers(static_cast<int64_t>(w.x.size()), 4);
  GetParam()->softmax(w.rows(p.data()));
  for (float& value : ds) value *= 20;
  ds[4 * w.row + 40] = ds[6 * w.row + 95] = ds[6 * w.row + 20] = NAN;  // unseen: nobody asks
  const std::vector<float> dp = ds;
  GetParam()->softmax_gradient(w.rows(ds.data()), p.data(), 0.25f);
  for (size_t i = 0; i < w.seen.size(); ++i) {
    double dot = 0;
    for (int64_t j = 0; j < w.keys; ++j) {
      const auto at = i * w.row + static_cast<size_t>(j);
      if (p[at] != 0) dot += static_cast<double>(p[at]) * dp[at];
    }
    for (int64_t j = 0; j < w.keys; ++j) {
      const auto at = i * w.row + static_cast<size_t>(j);
      const double wanted = p[at] == 0 ? 0 : 0.25 * p[at] * (dp[at] - dot);
      ASSERT_NEAR(ds[at], wanted, 0.25 * 20 * 12 * unit * p[at]) << i << ", " << j;
    }
  }
}

// tanh errs by 4 units (math.hpp), its argument by two more, and the sum with the mask is rounded.
TEST_P(OwnLoopsOfAttention, CapAndMask) {
  constexpr int64_t n = 77;
  const std::vector<float> scores = random_numbers(n, 5), added = random_numbers(n, 6);
  std::vector<uint8_t> shown(n);
  for (size_t i = 0; i < n; ++i) shown[i] = i % 3 != 0;
  for (const bool capped : {false, true})
    for (const Values& mask : {Values{}, Values{added.data()}, Values{shown.data(), Element::boolean}}) {
      std::vector<float> x = scores, slope(n, NAN);
      const float cap = capped ? 0.5f : 0.0f;
      GetParam()->mask_scores(x.data(), mask, cap, capped ? slope.data() : nullptr, n);
      for (size_t i = 0; i < n; ++i) {
        const double t = std::tanh(scores[i] / 0.5), before = capped ? 0.5 * t : scores[i];
        if (mask.type == Element::boolean && !shown[i]) {
          EXPECT_EQ(x[i], -infinite) << i;
          continue;
        }
        const bool adds = mask.data && mask.type == Element::f32;
        EXPECT_NEAR(x[i], before + (adds ? added[i] : 0), 10 * unit) << i;
        if (!capped) continue;
        EXPECT_NEAR(slope[i], 1 - t * t, 20 * unit) << i;
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Sets, OwnLoopsOfAttention, testing::ValuesIn(usable_loops()),
                         [](const auto& info) { return "of_" + std::to_string(info.param->width) + "_lanes"; });

}  // namespace
}  // namespace d5::onednn::own
