// SPDX-License-Identifier: Apache-2.0
#include "d5/report/compare.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "d5/core/error.hpp"
#include "d5/report/accept.hpp"
#include "d5/report/reproduce.hpp"
#include "golden.hpp"
#include "sample_records.hpp"

namespace d5 {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Six launches, each 0.1 % slower than the one before.
Record measured(const std::string& backend, int size, double seconds) {
  Record r = sample_record(backend, size, seconds);
  r.samples = samples_of(6, 2, [&](int l, int) { return seconds * (1 + 0.001 * l); });
  return r;
}

TEST(Compare, RatioIsSecondOverFirst) {
  const std::vector<Record> first = {measured("onednn", 64, 0.010)}, second = {measured("onednn", 64, 0.011)};
  const RecordComparison result = compare_records(first, second);
  ASSERT_THAT(result.rows, SizeIs(1));
  EXPECT_NEAR(result.rows[0].comparison.ratio, 1.1, 1e-3);
  EXPECT_EQ(result.rows[0].comparison.verdict, Verdict::slower);
  EXPECT_EQ(compare_records(second, first).rows[0].comparison.verdict, Verdict::faster);
  EXPECT_EQ(compare_records(first, first).rows[0].comparison.verdict, Verdict::same);
  EXPECT_THAT(gate(result, "slower"), ElementsAre(HasSubstr("slower")));
  EXPECT_THAT(gate(compare_records(second, first), "slower"), IsEmpty());
  EXPECT_THAT(gate(compare_records(second, first), "slower,different"), SizeIs(1));
  EXPECT_THAT(gate(compare_records(first, first), "different,unclear"), IsEmpty());
  EXPECT_THROW(gate(result, "slow"), UsageError);
  EXPECT_THROW(gate(result, ""), UsageError);
}

TEST(Compare, TheApprovedText) {
  std::vector<Record> first = {measured("onednn", 64, 0.010), measured("onednn", 128, 0.020),
                               measured("onednn", 256, 0.04), measured("onednn", 512, 0.08),
                               measured("onednn", 32, 0.005)};
  std::vector<Record> second = {measured("torch", 128, 0.0201), measured("torch", 64, 0.0121),
                                measured("torch", 512, 0.07), measured("torch", 1024, 1),
                                without_speed(measured("torch", 256, 1), "failed", "wrong\nrow")};
  const CompareOptions options{.ignore = {"backend"}, .verdicts = {}};
  const RecordComparison result = compare_records(first, second, options);
  EXPECT_THAT(result.rows, SizeIs(3));
  EXPECT_THAT(result.only_in_first, SizeIs(1));
  EXPECT_THAT(result.only_in_second, SizeIs(1));
  EXPECT_THAT(result.refused, ElementsAre(HasSubstr("second set: failed: wrong")));
  EXPECT_THAT(gate(result, "slower"), SizeIs(2));  // one slower, one that no longer passes
  expect_golden("compare.txt", compare_text(result, options, false));
  EXPECT_THAT(compare_records(first, second).rows, IsEmpty());  // the backend counts unless it is ignored
  EXPECT_THAT(gate(compare_records(first, second), "slower"), ElementsAre("no case could be compared"));
}

TEST(Compare, RecordsOfOneCaseAreTakenTogether) {
  const std::vector<Record> twice = {measured("onednn", 64, 0.010), measured("onednn", 64, 0.010)};
  const std::vector<Record> once = {measured("onednn", 64, 0.010)};
  const RecordComparison result = compare_records(once, twice);
  ASSERT_THAT(result.rows, SizeIs(1));
  EXPECT_EQ(result.rows[0].comparison.units, 6u);
  const std::vector<Record> mixed = {measured("onednn", 64, 0.010), measured("torch", 64, 0.010)};
  EXPECT_THROW(compare_records(once, mixed, {.ignore = {"backend"}, .verdicts = {}}), UsageError);
}

TEST(Compare, TooFewLaunchesAreUnclear) {
  Record a = measured("onednn", 64, 0.010), b = measured("onednn", 64, 0.020);
  a.samples = samples_of(2, 2, [](int, int) { return 0.01; });
  b.samples = samples_of(2, 2, [](int, int) { return 0.02; });
  const RecordComparison result = compare_records({&a, 1}, {&b, 1});
  EXPECT_EQ(result.rows[0].comparison.verdict, Verdict::unclear);
  EXPECT_THAT(gate(result, "unclear"), SizeIs(1));
}

TEST(Reproduce, AgreesWithItself) {
  RecordFile before;
  before.records = {measured("onednn", 64, 0.010)};
  before.environments = {sample_environment()};
  std::vector<Record> after = {before.records[0], sample_environment()};
  after[1].details["now"] = {{"load", 3}};
  const Reproduction result = reproduce_records(before, after);
  EXPECT_TRUE(result.agrees);
  EXPECT_EQ(result.cases[0].agreement.comparison->verdict, Verdict::same);
  EXPECT_THAT(result.environment_differences, IsEmpty());
  EXPECT_THAT(to_text(result), HasSubstr("agrees; same ("));
}

TEST(Reproduce, SaysWhatDiffers) {
  RecordFile before;
  before.records = {measured("onednn", 64, 0.010), measured("onednn", 128, 0.02), measured("onednn", 256, 0.02)};
  before.environments = {sample_environment()};
  Record environment = sample_environment();
  environment.details["cpu"]["model"] = "Epyc";
  environment.details["cpu"]["cores"] = 2;
  const std::vector<Record> after = {measured("onednn", 64, 0.012),
                                     without_speed(measured("onednn", 128, 1), "failed", "wrong"), environment};
  const Reproduction result = reproduce_records(before, after);
  EXPECT_FALSE(result.agrees);
  EXPECT_EQ(result.cases[0].agreement.comparison->verdict, Verdict::slower);
  EXPECT_FALSE(result.cases[0].agreement.agrees);
  EXPECT_EQ(result.cases[1].agreement.status_difference, "passed, now failed: wrong");
  EXPECT_THAT(result.missing, SizeIs(1));
  EXPECT_THAT(result.environment_differences, ElementsAre("cpu.cores: absent, now 2", "cpu.model: Xeon, now Epyc"));
  EXPECT_THAT(agreement(measured("onednn", 64, 1), measured("onednn", 128, 1)).case_differences,
              ElementsAre("m: 64, now 128"));
}

Record training(const std::string& quality, double value, const std::string& weights) {
  Record record{.kind = "train", .fields = {{"kind", "train"}, {"network", "mlp"}}, .status = "passed"};
  record.details["training"] = {{"quality", quality}, {"weights_hash", weights}};
  record.metrics = {{"test_" + quality, {.unit = "1", .median = value, .ci95 = {}}}};
  return record;
}

TEST(Reproduce, TrainingsThatFailedAgainInTheSameWayAgree) {
  Record before = training("accuracy", 0, "a"), after = before;
  for (Record* record : {&before, &after}) {
    record->status = "failed";
    record->reason = "the loss is nan at epoch 1";
    record->metrics.clear();
  }
  EXPECT_TRUE(agreement(before, after).agrees);
  after.details["training"]["weights_hash"] = "b";  // of what is no number there are many
  EXPECT_TRUE(agreement(before, after).agrees);
  EXPECT_EQ(agreement(before, after).weights, "failed again: the loss is nan at epoch 1");
  after.reason = "the loss is nan at epoch 2";
  EXPECT_FALSE(agreement(before, after).agrees);
}

TEST(Reproduce, AQualityWithoutAnIntervalCannotBeCompared) {
  const Agreement result = agreement(training("rmse", 0.5, "a"), training("rmse", 0.51, "b"));
  EXPECT_FALSE(result.agrees);
  EXPECT_THAT(result.weights, HasSubstr("test_rmse 0.5, now 0.51: there is no interval to compare by"));
}

TEST(Accept, TheEndOfTheIntervalThatCouldBreakItDecides) {
  Record r = sample_record("onednn", 64, 1);
  r.metrics = {{"test_accuracy", {"1", 0.991, {{0.989, 0.993}}, 6, 6}},
               {"time", {"s", 2.0, {{1.6, 2.5}}, 9, 9}},
               {"few", {"s", 1.0, {}, 3, 3}},
               {"error_linf", {"1", 1e-6, {}, 1, 1}}};
  r.bound = Bound{"roofline", 1.6, "s", 0.8};
  const auto outcome = [&](const char* metric, const char* relation, double threshold) {
    return to_string(judge(r, metric, relation, threshold).outcome);
  };
  EXPECT_EQ(outcome("test_accuracy", ">=", 0.989), "accepted");
  EXPECT_EQ(outcome("test_accuracy", ">", 0.989), "unclear");
  EXPECT_EQ(outcome("test_accuracy", ">=", 0.994), "refused");
  EXPECT_EQ(outcome("time", "<=", 2.5), "accepted");
  EXPECT_EQ(outcome("time", "<", 2.5), "unclear");
  EXPECT_EQ(outcome("time", "<", 1.6), "refused");
  EXPECT_EQ(outcome("few", "<", 100), "unclear");
  EXPECT_EQ(outcome("error_linf", "<=", 1e-5), "accepted");
  EXPECT_EQ(outcome("error_linf", "<=", 1e-7), "refused");
  // share = 1.6 / time, so 0.64 .. 1.0
  EXPECT_EQ(outcome("share", ">=", 0.64), "accepted");
  EXPECT_EQ(outcome("share", ">=", 0.65), "unclear");
  EXPECT_EQ(judge(r, "test_accuracy", ">=", 0.989).text, "test_accuracy 0.991 (0.989 .. 0.993) >= 0.989: accepted");
  EXPECT_THROW(judge(r, "test_acuracy", ">=", 1), UsageError);
  EXPECT_THROW(judge(r, "time", "==", 1), UsageError);
  r.status = "failed";
  EXPECT_EQ(outcome("time", "<=", 100), "refused");
  r.status = "unsupported";
  EXPECT_EQ(outcome("time", "<=", 100), "unclear");
}

}  // namespace
}  // namespace d5
