// SPDX-License-Identifier: Apache-2.0
#include "d5/measure/shape_tests.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "d5/core/error.hpp"
#include "d5/measure/quantile.hpp"

namespace d5 {
namespace {

// Expected dips: PyPI diptest 0.12.0, dipstat.
TEST(Dip, AgreesWithDiptest) {
  // The first 20 eruptions of Old Faithful (Azzalini and Bowman, 1990), minutes.
  std::vector<double> eruptions = {3.6,   1.8,   3.333, 2.283, 4.533, 2.883, 4.7,  3.6, 1.95, 4.35,
                                   1.833, 3.917, 4.2,   1.75,  4.7,   2.167, 1.75, 4.8, 1.6,  4.25};
  std::sort(eruptions.begin(), eruptions.end());
  EXPECT_NEAR(dip_statistic(eruptions), 0.10697258641239574, 1e-14);

  std::vector<double> squares, two_blocks, golden;
  for (int i = 1; i <= 30; ++i) squares.push_back(i * i);
  EXPECT_NEAR(dip_statistic(squares), 0.016666666666666666, 1e-14);  // one mode: 1 / (2n)
  for (int i = 0; i < 20; ++i) two_blocks.push_back(i / 20.0);
  for (int i = 0; i < 30; ++i) two_blocks.push_back(10 + i / 30.0);
  EXPECT_NEAR(dip_statistic(two_blocks), 0.181, 1e-14);
  for (int i = 1; i <= 100; ++i) golden.push_back(std::pow(std::fmod(i * 0.6180339887498949, 1), 2));
  std::sort(golden.begin(), golden.end());
  EXPECT_NEAR(dip_statistic(golden), 0.008975909797036125, 1e-12);
  EXPECT_NEAR(dip_statistic(std::vector<double>{0, 0, 0, 1, 1, 1}), 0.25, 1e-14);  // two points: the largest dip
}

TEST(Dip, OfNothingToSeeIsTheSmallest) {
  EXPECT_DOUBLE_EQ(dip_statistic(std::vector<double>{7}), 0.5);
  EXPECT_DOUBLE_EQ(dip_statistic(std::vector<double>(10, 3.0)), 0.05);
  EXPECT_THROW(dip_statistic({}), Error);
}

TEST(Dip, DoesNotChangeWhenMirrored) {
  std::vector<double> x, mirrored;
  for (int i = 1; i <= 77; ++i) x.push_back(std::fmod(i * 0.7548776662466927, 1) + (i % 3 == 0 ? 2 : 0));
  std::sort(x.begin(), x.end());
  for (auto v = x.rbegin(); v != x.rend(); ++v) mirrored.push_back(-*v);
  EXPECT_NEAR(dip_statistic(x), dip_statistic(mirrored), 1e-14);
}

// The p-value at published quantiles of the dip: table qDiptab of the R package diptest (1,000,001 samples each; the
// refinement of Table 1 of Hartigan and Hartigan, which prints 0.0471 for n = 100, 90 %).
TEST(Dip, PValuesAgreeWithThePublishedTable) {
  struct Published {
    double n, probability, dip;
  };
  for (const Published& t : {
           Published{10, 0.5, 0.0977817630384725},
           Published{10, 0.95, 0.139611395137099},
           Published{10, 0.99, 0.159684158858235},
           Published{10, 0.999, 0.180611195797351},
           Published{50, 0.5, 0.048851155289608},
           Published{50, 0.95, 0.0702737877191269},
           Published{50, 0.99, 0.0811998415355918},
           Published{50, 0.999, 0.0940930106666244},
           Published{100, 0.9, 0.0471},
           Published{200, 0.95, 0.0368418413878307},
           Published{200, 0.999, 0.0497198001867437},
           Published{1000, 0.5, 0.0117439009052552},
           Published{1000, 0.99, 0.0196080260483234},
           Published{10000, 0.95, 0.00542372242836395},
           Published{10000, 0.99, 0.00628034732880374},
           Published{40000, 0.99, 0.00315942194040388},
       }) {
    const double tail = 1 - t.probability;
    EXPECT_NEAR(dip_p_value(t.dip, t.n) / tail, 1, tail < 0.005 ? 0.15 : 0.06)
        << "n = " << t.n << ", " << t.probability;
  }
  // n = 63, dip 0.059: "a tail probability about 10 %" in the paper.
  EXPECT_NEAR(dip_p_value(0.059, 63), 0.10, 0.02);
}

TEST(Dip, PValueIsMonotoneAndBounded) {
  for (const double n : {4.0, 11.0, 137.5, 3000.0, 1e6}) {
    double previous = 1;
    for (double dip = 0.5 / n; dip < 0.25; dip *= 1.05) {
      const double p = dip_p_value(dip, n);
      EXPECT_LE(p, previous + 1e-12);
      EXPECT_GE(p, 0.0001 - 1e-12);
      previous = p;
    }
  }
  EXPECT_EQ(dip_p_value(0.2, 3), 1);
}

TEST(Dip, SimulationGivesTheTable) {
  // 0.0703: the published 95 % point for n = 50; 4,000 samples place it within about 1 %.
  const std::vector<double> dips = simulated_dips(50, 4000, 1);
  EXPECT_NEAR(quantile(dips, 0.95), 0.0702737877191269, 0.0012);
}

TEST(MannKendall, AgreesWithItsDefinition) {
  // numpy, all pairs, tie-corrected variance; the slope: scipy 1.17.1, theilslopes.
  const std::vector<double> x = {5, 5, 6, 4, 7, 7, 8, 6, 9, 9, 8, 11};
  const Trend trend = mann_kendall(x);
  EXPECT_EQ(trend.score, 45);
  EXPECT_NEAR(trend.z, 3.0532986135908846, 1e-12);
  EXPECT_NEAR(trend.p, 0.00226340585131275, 1e-12);
  EXPECT_NEAR(trend.slope, 0.5, 1e-12);
}

TEST(MannKendall, ConstantAndLongSeries) {
  const Trend constant = mann_kendall(std::vector<double>(20, 1.0));
  EXPECT_EQ(constant.z, 0);
  EXPECT_EQ(constant.p, 1);
  std::vector<double> line(100'000);
  std::iota(line.begin(), line.end(), 0.0);
  const Trend trend = mann_kendall(line);
  EXPECT_NEAR(trend.slope, 1, 1e-12);
  EXPECT_EQ(trend.score, int64_t{100'000} * 99'999 / 2);
  std::reverse(line.begin(), line.end());
  EXPECT_EQ(mann_kendall(line).score, -trend.score);
}

}  // namespace
}  // namespace d5
