// SPDX-License-Identifier: Apache-2.0
#include "d5/training/task.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "d5/training/stopping.hpp"

namespace d5 {
namespace {

std::unique_ptr<Evaluation> make(const std::string& task, Shape scores) {
  return registered<tasks>(task).make({DType::f32, scores});
}

TEST(Task, ClassificationCountsAndRemembers) {
  const auto e = make("classification", {3, 3});
  const std::vector<Index> samples{10, 11, 12};
  e->add(0.5, Tensor::from<float>({3, 3}, {1, 2, 0, 5, 1, 1, 0, 0, 9}), Tensor::from<int64_t>({3}, {1, 2, 2}), samples);
  e->add(1.5, Tensor::from<float>({1, 3}, {0, 1, 0}), Tensor::from<int64_t>({1}, {1}), std::vector<Index>{13});
  EXPECT_DOUBLE_EQ(e->value(), 0.75);
  EXPECT_DOUBLE_EQ(e->loss(), (3 * 0.5 + 1.5) / 4);
  EXPECT_EQ(e->right_of(), (std::pair<Index, Index>{3, 4}));
  const nlohmann::json report = e->report();
  EXPECT_EQ(report["confusion"], nlohmann::json::parse("[[0,0,0],[0,2,0],[1,0,1]]"));
  EXPECT_EQ(report["wrong"], nlohmann::json::parse("[[11,2,0]]"));
  e->reset();
  EXPECT_EQ(e->samples(), 0);
  EXPECT_TRUE(e->report()["wrong"].empty());
}

TEST(Task, SegmentationIsIntersectionOverUnion) {
  const auto e = make("segmentation", {1, 2, 1, 4});
  // true 0 0 1 1, predicted 0 1 1 1: IoU of class 0 is 1/2, of class 1 2/3
  e->add(0, Tensor::from<float>({1, 2, 1, 4}, {1, 0, 0, 0, 0, 1, 1, 1}), Tensor::from<int64_t>({1, 1, 4}, {0, 0, 1, 1}),
         std::vector<Index>{0});
  EXPECT_DOUBLE_EQ(e->value(), (0.5 + 2.0 / 3) / 2);
  EXPECT_DOUBLE_EQ(e->report()["pixel_accuracy"].get<double>(), 0.75);
}

TEST(Task, PerplexityOfChanceIsTheNumberOfSymbols) {
  const auto e = make("language-model", {1, 2, 8});
  e->add(std::log(8.0), Tensor(DType::f32, {1, 2, 8}), Tensor::from<int64_t>({1, 2}, {0, 7}), std::vector<Index>{0});
  EXPECT_NEAR(e->value(), 8, 1e-12);
  EXPECT_NEAR(e->report()["bits_per_symbol"].get<double>(), 3, 1e-12);
}

TEST(Task, RegressionIsTheRootOfTheMeanSquare) {
  const auto e = make("regression", {2, 1});
  e->add(0, Tensor::from<float>({2, 1}, {1, 2}), Tensor::from<float>({2, 1}, {4, 6}), std::vector<Index>{0, 1});
  EXPECT_DOUBLE_EQ(e->value(), std::sqrt((9 + 16) / 2.0));
}

TEST(StopRules, InTheirOrder) {
  StopRules rules{.epochs = 5, .target = 0.9, .plateau = 2};
  EXPECT_EQ(rules.after_epoch({0.5}), "");
  EXPECT_EQ(rules.after_epoch({0.5, 0.91}), "target");
  EXPECT_EQ(rules.after_epoch({0.5, 0.4}), "");
  EXPECT_EQ(rules.after_epoch({0.5, 0.4, 0.4}), "plateau");
  EXPECT_EQ(rules.after_epoch({0.1, 0.2, 0.3, 0.4, 0.5}), "epochs");
  rules.larger_is_better = false;
  rules.target = 2;
  EXPECT_EQ(rules.after_epoch({3}), "");
  EXPECT_EQ(rules.after_epoch({3, 1.9}), "target");
}

}  // namespace
}  // namespace d5
