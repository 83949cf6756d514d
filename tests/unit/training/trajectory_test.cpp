// SPDX-License-Identifier: Apache-2.0
#include "d5/training/trajectory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "fixture.hpp"

namespace d5 {
namespace {

TEST(Distance, IsTheFormula) {
  const Tensor a = Tensor::from<float>({2, 2}, {1, 2, 3, 4}), b = Tensor::from<float>({2, 2}, {1, 5, 3, 0});
  const ParameterDistance distance = distance_between(a, b, "w");
  EXPECT_DOUBLE_EQ(distance.l2, 5);
  EXPECT_DOUBLE_EQ(distance.linf, 4);
  EXPECT_THROW(distance_between(a, Tensor::from<float>({4}, {1, 2, 3, 4}), "w"), Error);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const ParameterDistance broken = distance_between(a, Tensor::from<float>({2, 2}, {1, nan, 3, 0}), "w");
  EXPECT_TRUE(std::isnan(broken.l2) && std::isnan(broken.linf));
}

class TrajectoryTest : public testing::Test {
 protected:
  // 20 steps, looked at every fourth.
  void train(TrainingSettings settings, Trajectory& trajectory) {
    settings.events.push_back(&trajectory);
    Trainer(settings, *on_).run();
  }
  NamedTensors weights_after(TrainingSettings settings, Index steps) {
    settings.stop.steps = steps;
    Trainer trainer(settings, *on_);
    trainer.run();
    NamedTensors values;
    for (const auto& [name, value] : canonical_parameters(trainer.parameters()))
      values.emplace_back(name, value.clone());
    return values;
  }
  const Folder folder_{"trajectory"};
  const std::string baseline_ = folder_.file("mlp-seed1");
  const std::unique_ptr<Backend> on_ = open_backend("reference");
};

TEST_F(TrajectoryTest, TheSameTrainingStaysWhereItWas) {
  Trajectory first(baseline_, 4, R"({"backend":"reference"})");
  train(little_training(), first);
  EXPECT_TRUE(first.is_baseline());
  EXPECT_TRUE(first.points().empty());
  Trajectory again(baseline_, 4, "{}");
  EXPECT_FALSE(again.is_baseline());
  EXPECT_EQ(again.baseline(), R"({"backend":"reference"})");
  train(little_training(), again);
  std::vector<Index> steps;
  for (const TrajectoryPoint& point : again.points()) {
    steps.push_back(point.step);
    EXPECT_EQ(point.all.l2, 0) << point.step;
    EXPECT_EQ(point.all.linf, 0) << point.step;
    EXPECT_GT(point.baseline_l2, 0) << point.step;
  }
  EXPECT_EQ(steps, (std::vector<Index>{0, 4, 8, 12, 16, 20}));
}

TEST_F(TrajectoryTest, OptimizersDriftApartAsTheirWeightsSay) {
  TrainingSettings other = little_training();
  other.optimizer = {"nesterov", {{"learning_rate", 0.05}}};
  {
    Trajectory first(baseline_, 4, "{}");
    train(little_training(), first);
  }
  Trajectory second(baseline_, 4, "{}");
  train(other, second);
  ASSERT_EQ(second.points().size(), 6u);
  EXPECT_EQ(second.points()[0].all.l2, 0);
  const NamedTensors a = weights_after(other, 8), b = weights_after(little_training(), 8);
  const TrajectoryPoint& point = second.points()[2];
  ASSERT_EQ(point.step, 8);
  ASSERT_EQ(second.names().size(), a.size());
  double squares = 0, largest = 0;
  for (size_t p = 0; p < a.size(); ++p) {
    EXPECT_EQ(second.names()[p], a[p].first);
    double own = 0, own_largest = 0;
    for (size_t i = 0; i < a[p].second.values<float>().size(); ++i) {
      const double d = static_cast<double>(a[p].second.values<float>()[i]) - b[p].second.values<float>()[i];
      own += d * d;
      own_largest = std::max(own_largest, std::abs(d));
    }
    EXPECT_NEAR(point.parameters[p].l2, std::sqrt(own), 1e-12 * std::sqrt(own));
    EXPECT_EQ(point.parameters[p].linf, own_largest);
    squares += own;
    largest = std::max(largest, own_largest);
  }
  EXPECT_GT(largest, 0);
  EXPECT_NEAR(point.all.l2, std::sqrt(squares), 1e-12 * std::sqrt(squares));
  EXPECT_EQ(point.all.linf, largest);
}

// Micro-batches of one step are one look; a baseline that ended early is compared as far as it goes.
TEST_F(TrajectoryTest, ComparesAsFarAsTheBaselineGoes) {
  TrainingSettings settings = little_training();
  settings.accumulate = 2;
  settings.stop.steps = 9;
  Trajectory first(baseline_, 4, "{}");
  train(settings, first);
  settings.stop.steps = 0;
  Trajectory second(baseline_, 4, "{}");
  train(settings, second);
  std::vector<Index> steps;
  for (const TrajectoryPoint& point : second.points()) steps.push_back(point.step);
  EXPECT_EQ(steps, (std::vector<Index>{0, 4, 8}));
}

TEST_F(TrajectoryTest, ABaselineThatWasNotFinishedIsNone) {
  {
    Trajectory broken_off(baseline_, 4, "{}");
    EXPECT_TRUE(std::filesystem::exists(baseline_ + ".part"));
  }
  EXPECT_FALSE(std::filesystem::exists(baseline_ + ".part"));
  EXPECT_TRUE(Trajectory(baseline_, 4, "{}").is_baseline());
  std::filesystem::create_directories(baseline_);
  EXPECT_THROW(Trajectory(baseline_, 4, "{}"), Error);
}

}  // namespace
}  // namespace d5
