// SPDX-License-Identifier: Apache-2.0
#include "d5/report/scaling_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace d5 {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

Record run(const std::string& link, int ranks, double rate, int seed = 1) {
  Record record{
      .kind = "train",
      .fields =
          {{"scaling", "weak"}, {"batch", 32}, {"scheme", "dsgd"}, {"link", link}, {"ranks", ranks}, {"seed", seed}},
      .status = "passed"};
  record.metrics = {{"throughput", {.unit = "1/s", .median = rate, .ci95 = {}}},
                    {"sent_per_step", {.unit = "B", .median = 2e6, .ci95 = {}}}};
  return record;
}

TEST(ScalingTable, OneNumberOfRanksIsNoStudy) {
  EXPECT_EQ(scaling_text(std::vector{run("1gbit", 2, 100), run("1gbit", 2, 110, 2)}, false), "");
}

TEST(ScalingTable, OneStudyNamesItsBase) {
  const std::string text = scaling_text(std::vector{run("1gbit", 2, 100), run("1gbit", 4, 150)}, false);
  EXPECT_THAT(text, HasSubstr("weak scaling, dsgd, batch 32, links of 1gbit, against 2 ranks (100 samples/s)"));
  EXPECT_THAT(text, ContainsRegex("4 +150 +1.50 +75 % +- +2 MB"));
}

// Where a library's own algorithms reduce nobody knows what they send.
TEST(ScalingTable, BytesThatAreNotKnownAreNone) {
  std::vector records{run("", 2, 100), run("", 4, 150)};
  for (Record& record : records) record.metrics.pop_back();
  EXPECT_THAT(scaling_text(records, false), ContainsRegex("4 +150 +1.50 +75 % +- +- +- "));
}

TEST(ScalingTable, RowsCarryTheirAccuracyAndTheIntervalOfTheRate) {
  std::vector records{run("", 1, 100), run("", 2, 150), run("", 4, 290)};
  for (Record& record : records) {
    Metric& rate = record.metrics.front().second;
    rate.ci95 = std::pair{rate.median - 4, rate.median + 4};
    record.metrics.emplace_back("test_accuracy", Metric{.unit = "1", .median = 0.91, .ci95 = std::pair{0.88, 0.93}});
  }
  records[2].details["training"]["replayed"] = {{"cpu_bound", false}};
  const std::string text = scaling_text(records, false);
  EXPECT_THAT(text, ContainsRegex("samples/s \\(95 %\\) .*test accuracy \\(95 %\\)"));
  EXPECT_THAT(text, ContainsRegex("2 +150 \\(146 .. 154\\) +1.50 +75 % +0.910 \\(0.880 .. 0.930\\)"));
  EXPECT_THAT(text, ContainsRegex("4 +290 \\(286 .. 294\\) +2.90 +7[23] % +- "));
}

TEST(ScalingTable, StudiesShareATableAndEachHasItsOwnBase) {
  const std::vector records{run("1gbit", 1, 100), run("10gbit", 1, 200), run("1gbit", 2, 150), run("10gbit", 2, 390),
                            run("none", 1, 7)};  // the last is none
  const std::string text = scaling_text(records, false);
  EXPECT_THAT(text, HasSubstr("weak scaling, dsgd, batch 32, each against its fewest ranks\nlink "));
  EXPECT_THAT(text, ContainsRegex("1gbit +2 +150 +1.50 +75 %"));
  EXPECT_THAT(text, ContainsRegex("10gbit +2 +390 +1.95 +98 %"));
  EXPECT_THAT(text, Not(HasSubstr("none")));
}

TEST(ScalingTable, BothKindsOfScalingAreNamedInTheRows) {
  std::vector records{run("", 1, 100), run("", 2, 150), run("", 1, 100), run("", 2, 170)};
  for (size_t i : {2, 3}) records[i].fields["scaling"] = "strong";
  const std::string text = scaling_text(records, false);
  EXPECT_THAT(text, HasSubstr("scaling, dsgd, batch 32, each against its fewest ranks\nscaling "));
  EXPECT_THAT(text, Not(HasSubstr("weak scaling")));
  EXPECT_THAT(text, ContainsRegex("weak +2 +150"));
  EXPECT_THAT(text, ContainsRegex("strong +2 +170"));
}

TEST(ScalingTable, SeedsGiveAMedian) {
  const std::vector records{run("", 1, 100, 1), run("", 1, 300, 2), run("", 2, 200, 1), run("", 2, 400, 2)};
  EXPECT_THAT(scaling_text(records, false), ContainsRegex("2 +300 +1.50 +75 %"));
}

}  // namespace
}  // namespace d5
