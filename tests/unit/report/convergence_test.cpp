// SPDX-License-Identifier: Apache-2.0
#include "d5/report/convergence.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace d5 {
namespace {

using testing::HasSubstr;

// 0: never.
std::vector<Record> runs(const std::string& backend, const std::vector<double>& epochs) {
  std::vector<Record> records;
  for (const double reached : epochs) {
    Record record{.kind = "train",
                  .fields = {{"network", "lenet"}, {"backend", backend}, {"seed", records.size()}, {"target", 0.9}},
                  .status = "passed"};
    if (reached > 0) record.metrics = {{"epochs_to_target", {.unit = "1", .median = reached, .ci95 = {}}}};
    records.push_back(record);
  }
  return records;
}

TEST(Convergence, FewerEpochsThanTheReferenceAreAFlag) {
  const auto reference = runs("torch", {12, 12, 13, 13, 14, 15, 12, 13, 14, 0});
  const auto same = runs("onednn", {12, 13, 13, 13, 14, 14, 12, 13, 14, 15});
  const auto fewer = runs("onednn", {9, 9, 10, 10, 11, 12, 9, 10, 11, 10});
  EXPECT_TRUE(compare_convergence(reference, fewer, {}).empty());  // another backend is another case
  const auto good = compare_convergence(reference, same, {"backend"}),
             bad = compare_convergence(reference, fewer, {"backend"});
  ASSERT_TRUE(good.size() == 1 && bad.size() == 1);
  EXPECT_FALSE(good[0].too_fast);
  EXPECT_TRUE(bad[0].too_fast);
  EXPECT_THAT(convergence_text(bad), HasSubstr("second 10 (10 runs)"));
  EXPECT_THAT(convergence_text(bad), HasSubstr("faster than the first set allows: something else was changed"));
  EXPECT_FALSE(compare_convergence(fewer, reference, {"backend"})[0].too_fast);
}

TEST(Convergence, RunsThatMostlyMissedSayNothing) {
  const auto text = convergence_text(compare_convergence(runs("a", {5, 5, 6, 5, 5}), runs("a", {5, 0, 0, 0, 5}), {}));
  EXPECT_THAT(text, HasSubstr("unclear, too few of 5 and 5 runs reached it"));
  EXPECT_EQ(convergence_text({}), "");
}

}  // namespace
}  // namespace d5
