// SPDX-License-Identifier: Apache-2.0
// L-BFGS on functions whose minimum is known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "d5/core/error.hpp"
#include "d5/training/optimizer.hpp"
#include "parameters.hpp"

namespace d5 {
namespace {

// (1 - x)^2 + 100 (y - x^2)^2 (Rosenbrock, 1960)
class Rosenbrock final : public Evaluate {
 public:
  explicit Rosenbrock(ParameterSet& set) : set_(set) {}
  double loss() override {
    ++losses;
    const auto p = values_of(set_);
    return std::pow(1 - p[0], 2) + 100 * std::pow(p[1] - p[0] * p[0], 2);
  }
  double loss_and_gradients() override {
    ++gradients;
    const auto p = values_of(set_);
    set_gradient(set_, {-2 * (1 - p[0]) - 400 * p[0] * (p[1] - p[0] * p[0]), 200 * (p[1] - p[0] * p[0])});
    const double value = loss();
    --losses;
    return value;
  }
  ParameterSet& parameters() override { return set_; }
  int losses = 0, gradients = 0;

 private:
  ParameterSet& set_;
};

TEST(Lbfgs, FindsTheMinimumOfRosenbrocksValley) {
  ParameterSet set = one_parameter({-1.2f, 1});
  const auto optimizer = make_optimizer({"lbfgs", {{"line_search", std::string("backtracking")}}}, set);
  Rosenbrock evaluate(set);
  for (Index t = 1; t <= 5; ++t) {
    optimizer->new_input({.step = t});
    optimizer->step(evaluate);
  }
  // Gradient descent would need thousands of gradients.
  EXPECT_LT(evaluate.loss(), 1e-6);
  EXPECT_NEAR(values_of(set)[0], 1, 1e-3);
  EXPECT_NEAR(values_of(set)[1], 1, 1e-3);
  EXPECT_LE(evaluate.gradients, 100);
  EXPECT_GT(evaluate.losses, 0);
}

TEST(Lbfgs, IsOneStepOnAParabolaOnceItKnowsTheCurvature) {
  // f = 2 x^2: the first step is g / |g| = 1 long, the second knows f'' = 4 and goes to 0.
  class Parabola final : public Evaluate {
   public:
    explicit Parabola(ParameterSet& set) : set_(set) {}
    double loss() override { return 2 * std::pow(values_of(set_)[0], 2); }
    double loss_and_gradients() override {
      seen.push_back(values_of(set_)[0]);
      set_gradient(set_, {4 * values_of(set_)[0]});
      return loss();
    }
    ParameterSet& parameters() override { return set_; }
    std::vector<float> seen;

   private:
    ParameterSet& set_;
  };
  ParameterSet set = one_parameter({3});
  const auto optimizer = make_optimizer({"lbfgs", {}}, set);
  EXPECT_TRUE(optimizer->evaluates());
  Parabola evaluate(set);
  EXPECT_EQ(optimizer->step(evaluate), 18);
  EXPECT_THAT(evaluate.seen, testing::ElementsAre(3.0f, 2.0f, 0.0f));
  EXPECT_THROW(optimizer->update(set.all()), Error);
}

TEST(Lbfgs, MistakesAreNamed) {
  ParameterSet set = one_parameter({3});
  EXPECT_THROW(make_optimizer({"lbfgs", {{"line_search", std::string("wolfe")}}}, set), UsageError);
  EXPECT_THROW(make_optimizer({"lbfgs", {{"history", int64_t{0}}}}, set), UsageError);
}

}  // namespace
}  // namespace d5
