// SPDX-License-Identifier: Apache-2.0
#include "d5/report/search_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace d5 {
namespace {

using testing::HasSubstr;

// A training of one second; accuracy 0: it failed.
Record trained(int trial, int seed, double accuracy, double target = 0) {
  Record record{.kind = "train",
                .fields = {{"kind", "train"}, {"network", "mlp"}, {"seed", seed}, {"target", target}},
                .status = accuracy > 0 ? "passed" : "failed"};
  record.details["search"] = {
      {"trial", trial},     {"per", nlohmann::json::object()},
      {"budget", 1.0},      {"values", {{"width", trial}}},
      {"method", "random"}, {"cost", accuracy > 0 ? nlohmann::json(-accuracy) : nlohmann::json()}};
  if (seed > 1) record.details["search"]["confirms"] = true;
  record.details["training"] = {{"quality", "accuracy"}, {"seconds", 1.0}};
  if (accuracy > 0)
    record.metrics = {{"test_accuracy", {.unit = "1", .median = accuracy, .ci95 = {}}},
                      {"training_time", {.unit = "s", .median = 1, .ci95 = {}}}};
  return record;
}

// The best of two was trained again; two more trials were asked for, and another one is the best.
TEST(SearchTable, OnlyTheBestIsConfirmed) {
  const std::vector<Record> records{trained(0, 1, 0.7), trained(1, 1, 0.6), trained(0, 2, 0.61), trained(0, 3, 0.62),
                                    trained(2, 1, 0.9), trained(3, 1, 0),   trained(2, 2, 0.88), trained(2, 3, 0)};
  const std::string text = search_text(records, false);
  EXPECT_THAT(text, HasSubstr("the best again with 2 other seeds: test_accuracy 0.88 .. 0.88, 1 failed (it was chosen "
                              "with 0.9)"));
  EXPECT_THAT(text, HasSubstr("1 s for the best training alone, 8 s with the search (8 trainings)"));
}

TEST(SearchTable, WithoutATargetNothingIsReached) {
  for (const double target : {0.0, 0.95}) {
    std::vector<Record> records{trained(0, 1, 0.7, target), trained(0, 1, 0.8, target)};
    records[0].details["search"]["per"] = {{"batch", 16}};
    records[1].details["search"]["per"] = {{"batch", 32}};
    EXPECT_EQ(search_text(records, false).find("never") != std::string::npos, target > 0);
  }
}

}  // namespace
}  // namespace d5
