// SPDX-License-Identifier: Apache-2.0
// Optimizers against numbers worked out by hand, and what every optimizer promises.
#include "d5/training/optimizer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "d5/core/error.hpp"
#include "parameters.hpp"

namespace d5 {
namespace {

using testing::ElementsAre;
using testing::FloatEq;
using testing::HasSubstr;

// Values after steps with these gradients, one a step.
std::vector<float> after(const OptimizerSettings& settings, std::vector<float> start,
                         const std::vector<std::vector<float>>& gradients) {
  ParameterSet set = one_parameter(start);
  const auto optimizer = make_optimizer(settings, set);
  Index step = 0;
  for (const std::vector<float>& gradient : gradients) {
    set_gradient(set, gradient);
    optimizer->new_input({.step = ++step});
    optimizer->prepare();
    set_gradient(set, gradient);
    optimizer->update(set.all());
  }
  return values_of(set);
}

TEST(Optimizers, GradientDescentGoesDownhill) {
  EXPECT_THAT(after({"sgd", {{"learning_rate", 0.5}}}, {1, -2}, {{2, 4}, {1, 0}}), ElementsAre(-0.5f, -4.0f));
}

TEST(Optimizers, MomentumKeepsItsDirection) {
  // v: 2, then 0.5 * 2 + 1 = 2; p: 1 - 0.25 * 2 = 0.5, then 0.
  EXPECT_THAT(after({"momentum", {{"learning_rate", 0.25}, {"mu", 0.5}}}, {1}, {{2}, {1}}), ElementsAre(0.0f));
}

TEST(Optimizers, AdamsSecondMomentDecaysWithBeta2) {
  // beta1 = 0: m = g. beta2 = 0.75: v = 0.25 * 16 = 4, corrected 16; then 0.75 * 4 = 3, corrected 3 / 0.4375.
  // A second moment that decayed with beta1 would be 0, and the second step 0 / 0.
  const auto p =
      after({"adam", {{"learning_rate", 1.0}, {"beta1", 0.0}, {"beta2", 0.75}, {"epsilon", 0.0}}}, {0}, {{4}, {2}});
  const double second = 0.75 * 4 + 0.25 * 4;
  EXPECT_THAT(p, ElementsAre(FloatEq(static_cast<float>(-1 - 2 / std::sqrt(second / (1 - 0.75 * 0.75))))));
}

TEST(Optimizers, NesterovLooksAhead) {
  // v: 2, 2; p: 1 - 0.25 (2 + 1) = 0.25, then 0.25 - 0.25 (1 + 1).
  EXPECT_THAT(after({"nesterov", {{"learning_rate", 0.25}, {"mu", 0.5}}}, {1}, {{2}, {1}}), ElementsAre(-0.25f));
}

TEST(Optimizers, AdaGradDividesByTheRootOfAllSquares) {
  // s: 9, then 25; steps 3 / 3 and 4 / 5.
  EXPECT_THAT(after({"adagrad", {{"learning_rate", 1.0}, {"epsilon", 0.0}}}, {0}, {{3}, {4}}),
              ElementsAre(FloatEq(-1.8f)));
}

TEST(Optimizers, RmsPropForgetsSquares) {
  // v: 1, then 1.75.
  const double expected = -2 - 2 / std::sqrt(1.75);
  EXPECT_THAT(after({"rmsprop", {{"learning_rate", 1.0}, {"alpha", 0.75}, {"epsilon", 0.0}}}, {0}, {{2}, {2}}),
              ElementsAre(FloatEq(static_cast<float>(expected))));
}

TEST(Optimizers, AdaDeltaStepsAsLongAsItsLastSteps) {
  // rho 0.75, eps 1: v = 4, d = 4 / sqrt(5), u = 0.25 * 16 / 5 = 0.8; then g = 0 changes nothing but the means, and
  // g = 2: v = 0.75^2 * 4 + 1 = 3.25, u = 0.6, d = sqrt(1.6 / 4.25) * 2.
  const double expected = -4 / std::sqrt(5.0) - 2 * std::sqrt(1.6 / 4.25);
  EXPECT_THAT(after({"adadelta", {{"rho", 0.75}, {"epsilon", 1.0}}}, {0}, {{4}, {0}, {2}}),
              ElementsAre(FloatEq(static_cast<float>(expected))));
}

TEST(Optimizers, AdamWDecaysBesideTheGradient) {
  // The first step of Adam is lr whatever the gradient: 0.95 * 2 - 0.1.
  EXPECT_THAT(after({"adamw", {{"learning_rate", 0.1}, {"weight_decay", 0.5}, {"epsilon", 0.0}}}, {2}, {{0.25f}}),
              ElementsAre(FloatEq(1.8f)));
}

TEST(Optimizers, LarsStepsByTheRatioOfNorms) {
  // |p| = 5, |g| = 2: q = 0.1 * 5 / 2, v = 2 q g = (0, 1). Then |p| = sqrt(18).
  const double second = 3 - 0.5 - 2 * (0.1 * std::sqrt(18.0) / 2) * 2;
  EXPECT_THAT(after({"lars", {{"learning_rate", 2.0}, {"mu", 0.5}, {"trust", 0.1}, {"weight_decay", 0.0}}}, {3, 4},
                    {{0, 2}, {0, 2}}),
              ElementsAre(3.0f, FloatEq(static_cast<float>(second))));
}

TEST(Optimizers, LambStepsAsLongAsTheParameter) {
  // Without means Adam's direction is (1, -1), of norm sqrt(2); |p| = 5.
  const auto step = static_cast<float>(0.5 * 5 / std::sqrt(2.0));
  const Attributes values{
      {"learning_rate", 0.5}, {"beta1", 0.0}, {"beta2", 0.0}, {"epsilon", 0.0}, {"weight_decay", 0.0}};
  EXPECT_THAT(after({"lamb", values}, {3, 4}, {{7, -2}}), ElementsAre(FloatEq(3 - step), FloatEq(4 + step)));
}

TEST(Optimizers, LionTakesTheSignOfTheMixedGradient) {
  // 0.9 * 1 + 0.5; m = -0.03, 0.9 m + 0.1 * 0.1 < 0: 0.9 * 1.4 + 0.5.
  EXPECT_THAT(after({"lion", {{"learning_rate", 0.5}, {"weight_decay", 0.2}}}, {1}, {{-3}, {0.1f}}),
              ElementsAre(FloatEq(1.76f)));
}

TEST(Optimizers, AcceleGradKeepsItsSum) {
  // h = 1 / sqrt(s), s: 4, 8. A sum that began anew each step would give -2.
  const double expected = -1 - 2 / std::sqrt(8.0);
  EXPECT_THAT(after({"accelegrad", {{"diameter", 0.5}, {"bound", 0.0}}}, {0}, {{2}, {2}}),
              ElementsAre(FloatEq(static_cast<float>(expected))));
}

// ---- modifiers
TEST(Modifiers, GradientsAreClipped) {
  const auto step = [](const Attributes& more) {
    Attributes values = more;
    values.set("learning_rate", 1.0);
    return after({"sgd", values}, {0, 0}, {{3, -4}});
  };
  EXPECT_THAT(step({{"clip_norm", 2.5}}), ElementsAre(-1.5f, 2.0f));
  EXPECT_THAT(step({{"clip_norm", 5.5}}), ElementsAre(-3.0f, 4.0f));
  EXPECT_THAT(step({{"clip_value", 3.5}}), ElementsAre(-3.0f, 3.5f));
  EXPECT_THAT(step({{"clip_norm", 2.5}, {"clip_value", 1.75}}), ElementsAre(-1.5f, 1.75f));  // the norm first
}

TEST(Modifiers, TheNormIsOverAllParameters) {
  ParameterSet set = parameters_of({{"a", {1}}, {"b", {1}}});
  set.gradient("a").values<float>()[0] = 3;
  set.gradient("b").values<float>()[0] = 4;
  const auto optimizer = make_optimizer({"sgd", {{"learning_rate", 1.0}, {"clip_norm", 1.0}}}, set);
  EXPECT_EQ(optimizer->division(), Optimizer::Division::whole);
  EXPECT_THROW(optimizer->update(set.range("a")), Error);
  optimizer->update(set.all());
  EXPECT_FLOAT_EQ(set.master("a").values<float>()[0], -0.6f);
  EXPECT_FLOAT_EQ(set.master("b").values<float>()[0], -0.8f);
}

TEST(Modifiers, WeightDecayHasExclusions) {
  const auto left = [](const std::string& excluded) {
    ParameterSet set = parameters_of({{"fc.weight", {1, 1}}, {"fc.bias", {1}}, {"bn.weight", {1}}});
    std::ranges::fill(set.masters(set.all()).values<float>(), 2.0f);
    make_optimizer({"sgd", {{"learning_rate", 1.0}, {"weight_decay", 0.25}, {"no_decay", excluded}}}, set)
        ->update(set.all());
    return std::vector<float>{set.master("fc.weight").values<float>()[0], set.master("fc.bias").values<float>()[0],
                              set.master("bn.weight").values<float>()[0]};
  };
  EXPECT_THAT(left(""), ElementsAre(1.5f, 1.5f, 1.5f));
  EXPECT_THAT(left("*bias"), ElementsAre(1.5f, 2.0f, 1.5f));
  EXPECT_THAT(left("*bias,bn*"), ElementsAre(1.5f, 2.0f, 2.0f));
  EXPECT_THAT(left("vectors"), ElementsAre(1.5f, 2.0f, 2.0f));
}

TEST(Modifiers, GradientsOfMicroBatchesBecomeTheirMean) {
  ParameterSet set = one_parameter({0});
  const auto optimizer = make_optimizer({"sgd", {{"learning_rate", 1.0}, {"clip_value", 3.0}}}, set);
  set_gradient(set, {8});
  optimizer->new_input({.rate_factor = 0.5, .gradient_factor = 0.25});
  optimizer->update(set.all());
  EXPECT_THAT(values_of(set), ElementsAre(-1.0f));
  EXPECT_EQ(optimizer->learning_rate(), 0.5);
}

// ---- the three parts of a step
class Recorded final : public Evaluate {
 public:
  explicit Recorded(ParameterSet& set, float slope) : set_(set), slope_(slope) {}
  double loss_and_gradients() override {
    seen.push_back(values_of(set_)[0]);
    set_gradient(set_, {slope_});
    return slope_ * values_of(set_)[0];
  }
  double loss() override { return slope_ * values_of(set_)[0]; }
  ParameterSet& parameters() override { return set_; }
  std::vector<float> seen;  // where gradients were asked for

 private:
  ParameterSet& set_;
  float slope_;
};

TEST(Optimizers, AStepIsNewInputPrepareGradientsUpdate) {
  // AcceleGrad with h = 2 / sqrt(s): where a > 1 the gradient is asked for between y and z, which only prepare goes to.
  ParameterSet set = one_parameter({0});
  const auto optimizer = make_optimizer({"accelegrad", {{"bound", 0.0}}}, set);
  Recorded evaluate(set, 1);
  double y = 0, z = 0, s = 0;
  for (Index t = 1; t <= 12; ++t) {
    const double a = std::max(1.0, static_cast<double>(t) / 4), x = y + (z - y) / a;
    s += a * a;
    optimizer->new_input({.step = t});
    EXPECT_NEAR(optimizer->step(evaluate), x, 1e-5);
    EXPECT_NEAR(evaluate.seen.back(), x, 1e-5) << t;
    if (t > 5) {
      EXPECT_GT(std::abs(evaluate.seen.back() - y), 1e-3) << "the gradient was taken where the last step ended";
    }
    z -= a * 2 / std::sqrt(s);
    y = x - 2 / std::sqrt(s);
    EXPECT_NEAR(values_of(set)[0], y, 1e-5) << t;
  }
}

TEST(Optimizers, StatesAreViewsThatACheckpointCanPutBack) {
  const OptimizerSettings settings{"adam", {}};
  ParameterSet once = odd_parameters(), resumed = odd_parameters();
  const auto run = [&](ParameterSet& set, Optimizer& optimizer, Index first, Index last) {
    for (Index t = first; t <= last; ++t) {
      draw_gradients(set, static_cast<uint64_t>(t));
      optimizer.new_input({.step = t});
      optimizer.update(set.all());
    }
  };
  const auto a = make_optimizer(settings, once);
  run(once, *a, 1, 6);
  const auto b = make_optimizer(settings, resumed);
  run(resumed, *b, 1, 3);
  const auto c = make_optimizer(settings, resumed);  // as after a restart
  const auto from = b->state(), to = c->state();
  ASSERT_EQ(from.size(), 2u);
  for (size_t i = 0; i < from.size(); ++i) {
    EXPECT_TRUE(from[i].like_parameters);
    to[i].values.copy_from(from[i].values);
  }
  run(resumed, *c, 4, 6);
  EXPECT_EQ(std::memcmp(once.masters(once.all()).data(), resumed.masters(resumed.all()).data(),
                        once.masters(once.all()).bytes()),
            0);
}

TEST(Optimizers, UnknownNamesAreNamedWithTheLegalOnes) {
  ParameterSet set = one_parameter({1});
  const auto message = [&](const OptimizerSettings& settings) -> std::string {
    try {
      make_optimizer(settings, set);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message({"adm", {}}), HasSubstr("unknown optimizer 'adm'; did you mean 'adam'?"));
  EXPECT_THAT(message({"adam", {{"beta3", 0.9}}}), HasSubstr("[adam] unknown"));
  EXPECT_THAT(message({"adam", {{"beta3", 0.9}}}), HasSubstr("epsilon"));
  EXPECT_THAT(message({"adam", {{"beta3", 0.9}}}), HasSubstr("weight_decay"));
  EXPECT_THAT(message({"adam", {{"beta1", std::string("much")}}}), HasSubstr("beta1 is 'much'"));
  EXPECT_THAT(message({"sgd", {{"learning_rate", -1.0}}}), HasSubstr("learning_rate is -1"));
}

TEST(Optimizers, ValuesThatMeanNothingAreRefusedWithTheLegalOnes) {
  const auto refusal = [](const std::string& name, const std::string& value, double given) -> std::string {
    try {
      complete_optimizer_values({name, {{value, given}}});
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal("adam", "beta2", 2), "[adam] beta2 is 2; 0 to less than 1 are legal");
  EXPECT_EQ(refusal("adam", "beta2", 1), "[adam] beta2 is 1; 0 to less than 1 are legal");
  EXPECT_EQ(refusal("momentum", "mu", -3), "[momentum] mu is -3; 0 to 1 are legal");
  EXPECT_EQ(refusal("momentum", "mu", 1), "");
  EXPECT_EQ(refusal("sgd", "learning_rate", -0.1), "[sgd] learning_rate is -0.1; 0 and more are legal");
  EXPECT_EQ(refusal("sgd", "learning_rate", INFINITY), "[sgd] learning_rate is inf; 0 and more are legal");
  EXPECT_EQ(refusal("sgd", "clip_norm", -1), "[sgd] clip_norm is -1; 0 and more are legal");
}

}  // namespace
}  // namespace d5
