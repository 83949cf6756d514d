// SPDX-License-Identifier: Apache-2.0
#include "d5/report/suite_summary.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sample_records.hpp"

namespace d5 {
namespace {

using ::testing::HasSubstr;

Record of_suite(Record record, const std::string& suite = "products") {
  record.details["suites"] = {{{"suite", suite}, {"set", "training"}, {"line", 7}}};
  return record;
}

TEST(SuiteSummary, IsEmptyWithoutASuite) {
  const std::vector<Record> records{sample_record("onednn", 256, 1.0)};
  EXPECT_EQ(suite_summary(records), "");
}

// 1 s and 3 s against 2 s and 3 s: totals 4 and 5; the mean ratio is sqrt(2 * 1). The third case is measured on one
// only.
TEST(SuiteSummary, AddsUpWhatAllMembersMeasured) {
  const std::vector<Record> records{
      of_suite(sample_record("onednn", 256, 1.0)),
      of_suite(sample_record("torch", 256, 2.0)),
      of_suite(sample_record("onednn", 512, 3.0)),
      of_suite(sample_record("torch", 512, 3.0)),
      of_suite(sample_record("onednn", 1024, 100.0)),
      of_suite(without_speed(sample_record("torch", 1024, 1.0), "unsupported", "no kernel")),
      sample_record("onednn", 2048, 50.0)};
  const std::string text = suite_summary(records);
  EXPECT_THAT(text, HasSubstr("Suite products, f32 forward, 1 thread\n"));
  EXPECT_THAT(text, HasSubstr("total over 2 cases measured on both: onednn 4 s, torch 5 s (1.25x)\n"));
  EXPECT_THAT(text, HasSubstr("1.41x"));
  EXPECT_THAT(text, ::testing::ContainsRegex("torch +2 +0 +0 +0 +0 +1 "));
  EXPECT_THAT(text, ::testing::ContainsRegex("onednn +3 +0 +0 +0 +0 +0 "));
}

TEST(SuiteSummary, KeepsPassesApartAndCountsChecksWithoutTimes) {
  Record forward = of_suite(sample_record("onednn", 256, 1.0)), backward = forward;
  backward.fields["pass"] = "backward";
  backward.metrics.clear();
  const std::vector<Record> records{forward, backward};
  const std::string text = suite_summary(records);
  EXPECT_THAT(text, HasSubstr("Suite products, f32 forward, 1 thread"));
  EXPECT_THAT(text, HasSubstr("Suite products, f32 backward, 1 thread"));
}

}  // namespace
}  // namespace d5
