// SPDX-License-Identifier: Apache-2.0
#include "d5/report/trajectory_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace d5 {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

Record run(const std::string& backend, int looks) {
  Record record{.kind = "train",
                .fields = {{"network", "lenet"}, {"seed", 1}, {"backend", backend}, {"optimizer", "adam:beta1=0.9"}},
                .status = "passed"};
  Json& trajectory = record.details["training"]["trajectory"];
  trajectory = {{"folder", "drift/lenet"}, {"every", 10}};
  if (looks == 0) return record;
  trajectory["baseline"] = {{"backend", "reference"}, {"optimizer", "adam:beta1=0.9"}};
  trajectory["parameters"] = {"conv1.weight", "conv1.bias"};
  for (int i = 0; i < looks; ++i) {
    trajectory["steps"].push_back(10 * i);
    trajectory["all_l2"].push_back(5e-7 * i);
    trajectory["all_linf"].push_back(4e-7 * i);
    trajectory["baseline_l2"].push_back(12.5);
    trajectory["l2"].push_back({3e-7 * i, 4e-7 * i});
    trajectory["linf"].push_back({2e-7 * i, 4e-7 * i});
  }
  return record;
}

TEST(TrajectoryTable, ShowsEachTrainingBesideTheBaseline) {
  const std::vector<Record> records{run("reference", 0), run("onednn", 3), run("torch", 2)};
  const std::string text = trajectory_text(records, false);
  EXPECT_THAT(text, HasSubstr("lenet, seed 1: how far the trained weights are from the baseline's (backend reference, "
                              "optimizer adam:beta1=0.9)"));
  EXPECT_THAT(text, HasSubstr("backend onednn: L2"));
  EXPECT_THAT(text, HasSubstr("backend torch: L2"));
  EXPECT_THAT(text, testing::ContainsRegex("\n *10 +5e-07 +4e-07 +5e-07 +4e-07 *\n"));
  EXPECT_THAT(text, testing::ContainsRegex("\n *20 +1e-06 +8e-07 *\n"));
  EXPECT_THAT(text,
              HasSubstr("backend onednn: at step 20 1e-06 apart in L2, 8e-06 % of the length of the baseline's "
                        "weights, 12.5; most in conv1.bias 8e-07 (L-inf 8e-07), conv1.weight 6e-07 (L-inf 4e-07)"));
  EXPECT_THAT(text, HasSubstr("The baseline is kept in drift/lenet"));
  EXPECT_THAT(trajectory_text(std::vector{run("onednn", 1)}, false),
              HasSubstr("backend onednn: the same bits up to step 0"));
  EXPECT_EQ(trajectory_text(std::vector{run("reference", 0)}, false), "");
}

TEST(TrajectoryTable, LongOnesAreShownOnALogarithmicScale) {
  const std::string text = trajectory_text(std::vector{run("onednn", 1000)}, false);
  EXPECT_LE(std::ranges::count(text, '\n'), 19);
  EXPECT_THAT(text, testing::ContainsRegex("\n *0 "));
  EXPECT_THAT(text, testing::ContainsRegex("\n *9990 "));
}

TEST(TrajectoryTable, TheFileHasEveryStepAndParameter) {
  const std::string text = trajectory_csv(std::vector{run("reference", 0), run("onednn", 3)});
  EXPECT_THAT(text, testing::StartsWith("network,seed,backend,optimizer,baseline,step,parameter,l2,linf\n"));
  EXPECT_EQ(std::ranges::count(text, '\n'), 1 + 3 * 3);
  EXPECT_THAT(text, HasSubstr("lenet,1,onednn,adam:beta1=0.9,reference adam:beta1=0.9,10,all,5e-07,4e-07\n"));
  EXPECT_EQ(trajectory_csv(std::vector{run("reference", 0)}), "");
}

// What is not finite is null in a record.
TEST(TrajectoryTable, WhatIsNoNumberIsShownAsSuch) {
  Record record = run("onednn", 2);
  record.details["training"]["trajectory"]["all_l2"][1] = nullptr;
  EXPECT_THAT(trajectory_text(std::vector{record}, false), HasSubstr("nan"));
}

}  // namespace
}  // namespace d5
