// SPDX-License-Identifier: Apache-2.0
// Schedules against numbers by hand, and against those that PyTorch 2.15 gives for the same settings.
#include "d5/training/schedule.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "d5/core/error.hpp"

namespace d5 {
namespace {

using testing::DoubleNear;
using testing::HasSubstr;
using testing::Pointwise;

// Ten steps an epoch.
std::vector<double> factors(const ScheduleSettings& settings, int count, const Horizon& horizon = {10, 10}) {
  const auto schedule = make_schedule(settings, horizon);
  const bool by_step = settings.values.text("by", settings.name == "one-cycle" ? "step" : "epoch") == "step";
  std::vector<double> result;
  for (Index i = 0; i < count; ++i)
    result.push_back(schedule->factor(by_step ? Moment{.step = i + 1, .epoch = i / 10}
                                              : Moment{.step = 10 * i + 4, .epoch = i, .epoch_progress = 0.3}));
  return result;
}
auto are(const std::vector<double>& expected) { return Pointwise(DoubleNear(1e-12), expected); }

TEST(Schedules, ConstantStepAndMultiStep) {
  EXPECT_THAT(factors({}, 3), are({1, 1, 1}));
  EXPECT_THAT(factors({"step", {{"every", 2}, {"gamma", 0.5}}}, 5), are({1, 1, 0.5, 0.5, 0.25}));
  EXPECT_THAT(factors({"step", {{"every", 2}, {"gamma", 0.5}, {"by", std::string("step")}}}, 5),
              are({1, 1, 0.5, 0.5, 0.25}));
  EXPECT_THAT(factors({"multi-step", {{"milestones", std::vector<int64_t>{1, 3}}}}, 5), are({1, 0.1, 0.1, 0.01, 0.01}));
}

TEST(Schedules, CosineAndPolynomialAsInPyTorch) {
  EXPECT_THAT(factors({"cosine", {{"length", 5}, {"end", 0.1}}}, 6),
              are({1, 0.9140576474687263, 0.6890576474687263, 0.41094235253127365, 0.1859423525312737, 0.1}));
  EXPECT_THAT(factors({"polynomial", {{"length", 4}, {"power", 2}}}, 6), are({1, 0.5625, 0.25, 0.0625, 0, 0}));
  EXPECT_THAT(factors({"polynomial", {}}, 3, {4, 10}), are({1, 0.75, 0.5}));  // the whole run
}

TEST(Schedules, OneCycleAsInPyTorch) {
  EXPECT_THAT(factors({"one-cycle", {}}, 10, {1, 10}),
              are({0.04, 0.52, 1, 0.9504846320134737, 0.8117456539497631, 0.6112620219362893, 0.38874197806371075,
                   0.18825834605023697, 0.049519367986526286, 4e-6}));
}

TEST(Schedules, WarmUpDecoratesAnySchedule) {
  EXPECT_THAT(factors({"constant", {{"warmup", 4}}}, 6), are({0.25, 0.5, 0.75, 1, 1, 1}));
  EXPECT_THAT(factors({"step", {{"every", 3}, {"warmup", 2}, {"warmup_start", 0.5}}}, 5), are({0.75, 1, 1, 0.1, 0.1}));
}

TEST(Schedules, LearningRatesScaleWithTheBatch) {
  EXPECT_DOUBLE_EQ(scale_learning_rate(0.1, "none", 1024, 256), 0.1);
  EXPECT_DOUBLE_EQ(scale_learning_rate(0.1, "linear", 1024, 256), 0.4);
  EXPECT_DOUBLE_EQ(scale_learning_rate(0.1, "square-root", 1024, 256), 0.2);
  EXPECT_THROW(scale_learning_rate(0.1, "cubic", 1024, 256), UsageError);
  EXPECT_THROW(scale_learning_rate(0.1, "linear", 0, 256), UsageError);
}

TEST(Schedules, MistakesAreNamed) {
  const auto message = [](const ScheduleSettings& settings, const Horizon& horizon) -> std::string {
    try {
      make_schedule(settings, horizon);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message({"cosin", {}}, {}), HasSubstr("did you mean 'cosine'?"));
  EXPECT_THAT(message({"cosine", {}}, {}), HasSubstr("nobody knows how long that is"));
  EXPECT_THAT(message({"cosine", {{"by", std::string("batch")}}}, {3, 3}), HasSubstr("Legal: epoch, step"));
  EXPECT_THAT(message({"step", {{"evry", 3}}}, {}), HasSubstr("did you mean 'every'?"));
  EXPECT_THAT(message({"step", {{"every", 0}}}, {}), HasSubstr("more than 0"));
}

}  // namespace
}  // namespace d5
