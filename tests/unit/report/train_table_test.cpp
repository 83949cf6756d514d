// SPDX-License-Identifier: Apache-2.0
#include "d5/report/train_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "d5/core/error.hpp"

namespace d5 {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
using Outcome = Judgement::Outcome;

Record run(int seed, double accuracy, double seconds, bool reached, const std::string& backend = "onednn") {
  Record record{
      .kind = "train",
      .fields = {{"kind", "train"}, {"network", "lenet"}, {"backend", backend}, {"seed", seed}, {"target", 0.9}},
      .status = "passed"};
  record.details["training"] = {{"quality", "accuracy"},
                                {"seconds", seconds},
                                {"curve", {{{"epoch", 2}}}},
                                {"step",
                                 {{"whole_s", 0.004},
                                  {"operators_s", 0.003},
                                  {"optimizer_s", 0.0005},
                                  {"input_s", 0.0004},
                                  {"residual_s", 0.0001}}}};
  record.metrics = {
      {"test_accuracy", {.unit = "1", .median = accuracy, .ci95 = {{accuracy - 0.002, accuracy + 0.002}}}},
      {"train_loss", {.unit = "1", .median = 0.1, .ci95 = {}}}};
  if (reached) record.metrics.push_back({"time_to_target", {.unit = "s", .median = seconds, .ci95 = {}}});
  record.stopped = reached ? "target" : "epochs";
  return record;
}

std::vector<Record> five(std::initializer_list<double> accuracies) {
  std::vector<Record> records;
  int seed = 0;
  for (const double accuracy : accuracies) {
    ++seed;
    records.push_back(run(seed, accuracy, 10 * seed, accuracy >= 0.9));
  }
  return records;
}

Judgement judged(const std::vector<Record>& records, const std::string& relation, double threshold) {
  const auto runs = by_configuration(records);
  return judge_seeds(runs.at(0), "test_accuracy", relation, threshold);
}

TEST(TrainTable, ShowsEveryRunAndWhatTheSeedsSayTogether) {
  const std::vector<Record> records = five({0.91, 0.92, 0.89, 0.93, 0.94});
  const std::string text = train_text(records, false);
  EXPECT_THAT(text, HasSubstr("0.9100 (0.9080 .. 0.9120)"));
  EXPECT_THAT(text, HasSubstr("75.0 %"));
  EXPECT_THAT(text, HasSubstr("never"));
  EXPECT_THAT(text, HasSubstr("5 seeds: test accuracy median 0.92, from 0.89 to 0.94"));
  EXPECT_THAT(text, HasSubstr("reached by 4 of 5; median 40 s"));
  // Without the fastest (10 s) and the one that missed: (20 + 40 + 50) / 3.
  EXPECT_THAT(text, HasSubstr("MLPerf score 36.7 s"));
}

// Every field of a case can be an axis, and rows are told apart.
TEST(TrainTable, WhateverDiffersHasAColumn) {
  std::vector<Record> records = five({0.91, 0.92});
  records[1].fields["seed"] = 1;
  for (Record& record : records) record.fields.update({{"communicator", "threads"}, {"width", 64}});
  EXPECT_THAT(train_text(records, false), Not(HasSubstr("communicator")));
  records[0].fields["communicator"] = "mpi";
  records[1].fields["width"] = 128;
  const std::string text = train_text(records, false);
  EXPECT_THAT(text, ContainsRegex("communicator +width +epochs"));
  EXPECT_THAT(text, ContainsRegex("mpi +64 +2 +0.9100"));
  EXPECT_THAT(text, ContainsRegex("threads +128 +2 +0.9200"));
}

TEST(TrainTable, SeedsOfSeveralConfigurationsSayWhoseTheyAre) {
  std::vector<Record> records = five({0.91, 0.92, 0.81, 0.82});
  for (size_t i : {0, 1, 2, 3}) {
    records[i].fields["seed"] = i % 2;
    records[i].fields["scheme"] = i < 2 ? "dsgd" : "qsgd";
  }
  const std::string text = train_text(records, false);
  EXPECT_THAT(text, HasSubstr(", scheme dsgd, 2 seeds: test accuracy median 0.915"));
  EXPECT_THAT(text, HasSubstr(", scheme qsgd, 2 seeds: test accuracy median 0.815"));
}

// Three of six never get there: half of them had when the third one did, at 30 s.
TEST(TrainTable, RunsThatFailedCountAsThoseThatNeverReachIt) {
  std::vector<Record> records = five({0.91, 0.92, 0.93});
  for (const char* status : {"failed", "failed", "error"}) {
    Record bad = run(static_cast<int>(records.size()) + 1, 0, 0.1, false);
    bad.metrics.clear();
    bad.status = status;
    if (bad.status == "error") bad.details.clear();
    records.push_back(bad);
  }
  EXPECT_THAT(train_text(records, false), HasSubstr("6 seeds: test accuracy median 0.92, from 0.91 to 0.93, 3 failed\n"
                                                    "  time to 0.9: reached by 3 of 6; median 30 s"));
  std::rotate(records.begin(), records.begin() + 3, records.end());
  records.erase(records.begin() + 3, records.end());
  EXPECT_THAT(train_text(records, false),
              HasSubstr("3 seeds: 3 failed\n  time to 0.9: reached by 0 of 3; median never"));
}

TEST(TrainTable, WaitingForOtherRanksIsAPartWhereItIsMeasured) {
  std::vector<Record> records{run(1, 0.9, 1, true), run(2, 0.9, 1, true)};
  EXPECT_THAT(train_text(records, false), testing::Not(HasSubstr("waiting")));
  records[1].details["training"]["step"]["waiting_s"] = 0.0007;
  const std::string text = train_text(records, false);
  EXPECT_THAT(text, HasSubstr("waiting"));
  EXPECT_THAT(text, HasSubstr("17.5 %"));
}

TEST(TrainTable, ConfigurationsDifferByMoreThanTheSeed) {
  const std::vector<Record> records{run(1, 0.9, 1, true), run(1, 0.9, 1, true, "torch"), run(2, 0.9, 1, true)};
  const auto found = by_configuration(records);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].size(), 2u);
}

TEST(JudgeSeeds, TheWorstOfFiveIsTheBound) {
  EXPECT_EQ(judged(five({0.91, 0.92, 0.95, 0.93, 0.94}), ">=", 0.91).outcome, Outcome::accepted);
  EXPECT_EQ(judged(five({0.91, 0.92, 0.90, 0.93, 0.94}), ">=", 0.91).outcome, Outcome::unclear);
  EXPECT_EQ(judged(five({0.81, 0.82, 0.80, 0.83, 0.84}), ">=", 0.91).outcome, Outcome::refused);
  EXPECT_EQ(judged(five({0.91, 0.92, 0.95, 0.93}), ">=", 0.5).outcome, Outcome::unclear);
  EXPECT_EQ(judged(five({0.1, 0.2, 0.1, 0.1, 0.1}), "<=", 0.2).outcome, Outcome::accepted);
}

TEST(JudgeSeeds, AFailedRunCountsAsTheWorst) {
  std::vector<Record> records = five({0.91, 0.92, 0.95, 0.93, 0.94});
  records[0].metrics.clear();
  records[0].status = "failed";
  EXPECT_EQ(judged(records, ">=", 0.9).outcome, Outcome::unclear);
}

TEST(JudgeSeeds, AnUnknownMetricIsNamed) {
  const std::vector<Record> records = five({0.9});
  EXPECT_THROW(judge_seeds(by_configuration(records).at(0), "test_acuracy", ">=", 0.9), UsageError);
  std::vector<Record> behind_one_that_failed = five({0.9, 0.9});
  behind_one_that_failed[0].metrics.clear();
  behind_one_that_failed[0].status = "failed";
  EXPECT_THROW(judge_seeds(by_configuration(behind_one_that_failed).at(0), "test_acuracy", ">=", 0.9), UsageError);
}

}  // namespace
}  // namespace d5
