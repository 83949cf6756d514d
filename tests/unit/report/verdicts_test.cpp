// SPDX-License-Identifier: Apache-2.0
#include "d5/report/verdicts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "sample_records.hpp"

namespace d5 {
namespace {

using ::testing::HasSubstr;

Record timed(const std::string& group, const std::string& backend, const Samples& samples) {
  Record r = sample_record(backend, 64, 1);
  r.group = group;
  r.samples = samples;
  return r;
}

TEST(Verdicts, ArithmeticByHand) {
  // Launch l differs by 0.01 (l + 1) in the log: 0.01 more in the first round, 0.01 less in the second.
  const Record base = timed("g", "a", samples_of(6, 2, [](int, int) { return 2.0; }));
  const Record other =
      timed("g", "b",
            samples_of(6, 2, [](int l, int r) { return 2.0 * std::exp(0.01 * (l + 1) + (r == 0 ? 0.01 : -0.01)); }));
  const std::vector<PairedSlices> slices = paired_slices(other, base, true);
  ASSERT_EQ(slices.size(), 6u);
  for (int l = 0; l < 6; ++l) {
    EXPECT_EQ(slices[l].launch, l);
    EXPECT_NEAR(slices[l].log_ratio, 0.01 * (l + 1), 1e-12);
  }
  EXPECT_EQ(paired_slices(other, base, false).size(), 12u);

  const auto standings = verdicts(std::vector<Record>{base, other});
  EXPECT_EQ(standings[0]->base, 0u);
  EXPECT_EQ(comparisons_in(standings), 1u);
  const Comparison& c = standings[1]->comparison;
  EXPECT_NEAR(c.ratio, 1.035620, 1e-6);           // exp(0.035)
  EXPECT_NEAR(c.interval->low, 1.010050, 1e-6);   // exp(0.01): of six, the sign test takes the extremes
  EXPECT_NEAR(c.interval->high, 1.061837, 1e-6);  // exp(0.06)
  EXPECT_EQ(verdict_text(c), "1.04x slower (1.01 .. 1.06)");
}

TEST(Verdicts, ASingleRoundIsComparedToo) {
  const Record base = timed("g", "a", samples_of(6, 1, [](int, int) { return 2.0; }));
  const Record other = timed("g", "b", samples_of(6, 1, [](int, int) { return 3.0; }));
  EXPECT_EQ(paired_slices(other, base, true).size(), 6u);
  EXPECT_NEAR(verdicts(std::vector<Record>{base, other})[1]->comparison.ratio, 1.5, 1e-12);
}

TEST(Verdicts, AbbaCancelsALinearDrift) {
  // Time grows by 1 % a slice; the order is A B, B A.
  const auto at = [](int slice) { return std::exp(0.01 * slice); };
  const Record a = timed("g", "a", samples_of(6, 2, [&](int, int r) { return at(r == 0 ? 0 : 3); }));
  const Record b = timed("g", "b", samples_of(6, 2, [&](int, int r) { return at(r == 0 ? 1 : 2); }));
  const auto standings = verdicts(std::vector<Record>{a, b});
  EXPECT_NEAR(standings[1]->comparison.ratio, 1, 1e-12);
  EXPECT_EQ(standings[1]->comparison.verdict, Verdict::same);
}

TEST(Verdicts, SeveralComparisonsNeedMoreLaunches) {
  // Two comparisons at 5 % need ceil(1 + log2(2 / 0.05)) = 7 launches.
  const auto table = [](int launches) {
    std::vector<Record> records;
    for (double factor : {1.0, 1.1, 1.2}) {
      records.push_back(timed("g", std::to_string(factor), samples_of(launches, 3, [&](int, int) { return factor; })));
    }
    return records;
  };
  const auto six = verdicts(table(6)), seven = verdicts(table(7));
  EXPECT_EQ(comparisons_in(six), 2u);
  EXPECT_FALSE(six[1]->comparison.interval);
  EXPECT_EQ(verdict_text(six[1]->comparison), "unclear (interval n/a: 6 launches, 7 needed)");
  EXPECT_EQ(seven[1]->comparison.verdict, Verdict::slower);
  EXPECT_THAT(seven[1]->comparison.method, HasSubstr("Bonferroni over 2 comparisons"));
}

TEST(Verdicts, OnlyPassedRecordsOfOneGroupAreCompared) {
  const Samples samples = samples_of(6, 2, [](int, int) { return 1.0; });
  std::vector<Record> records = {timed("g", "a", samples), timed("g", "b", samples), timed("h", "c", samples),
                                 timed("", "d", samples), timed("", "e", samples)};
  records[0].status = "failed";
  for (const auto& standing : verdicts(records)) EXPECT_FALSE(standing);
  records.push_back(timed("g", "f", samples));
  const auto standings = verdicts(records);
  EXPECT_EQ(standings[5]->base, 1u);  // the first that has a speed
  EXPECT_FALSE(standings[0]);
}

TEST(Verdicts, NoCommonRoundIsUnclear) {
  Samples later = samples_of(6, 2, [](int, int) { return 1.0; });
  for (int& l : later.launch) l += 10;
  const auto standings = verdicts(
      std::vector<Record>{timed("g", "a", samples_of(6, 2, [](int, int) { return 1.0; })), timed("g", "b", later)});
  EXPECT_EQ(verdict_text(standings[1]->comparison), "unclear (no common rounds)");
}

TEST(Verdicts, TextSaysNoMoreThanTheInterval) {
  const auto text = [](double ratio, double low, double high, Verdict verdict) {
    Comparison c{};
    c.ratio = ratio;
    c.interval = Interval{low, high};
    c.verdict = verdict;
    return verdict_text(c);
  };
  EXPECT_EQ(text(1.0470, 1.0391, 1.0559, Verdict::slower), "1.047x slower (1.039 .. 1.056)");
  EXPECT_EQ(text(1.0005, 0.9970, 1.0040, Verdict::same), "same (0.997 .. 1.004)");
  EXPECT_EQ(text(1.0, 0.9, 1.2, Verdict::unclear), "unclear (0.9 .. 1.2)");
  EXPECT_EQ(text(0.5, 0.49, 0.51, Verdict::faster), "2.00x faster (1.96 .. 2.04)");
}

TEST(Verdicts, OneLaunchIsLabelled) {
  const Record a = timed("g", "a", samples_of(1, 20, [](int, int) { return 1.0; }));
  const Record b = timed("g", "b", samples_of(1, 20, [](int, int r) { return 1.1 + 0.001 * r; }));
  const auto standings = verdicts(std::vector<Record>{a, b});
  EXPECT_THAT(verdict_text(standings[1]->comparison), HasSubstr("), within one launch"));
}

TEST(Verdicts, LaunchMedians) {
  Record r = timed("g", "a", samples_of(2, 1, [](int l, int) { return l + 1.0; }));
  EXPECT_EQ(launch_medians(r), (std::vector<double>{1, 2}));
}

}  // namespace
}  // namespace d5
