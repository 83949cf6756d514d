// SPDX-License-Identifier: Apache-2.0
// Optimizers against numbers worked out by hand, and what every optimizer promises.
#include "d5/training/optimizer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

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

}  // namespace
}  // namespace d5
