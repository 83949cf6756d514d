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
                                              : Moment{.step = 10 * i + 1, .epoch = i, .epoch_progress = 0}));
  return result;
}
// At every step of runs with ten steps an epoch.
std::vector<double> factors_of_steps(const ScheduleSettings& settings, int count, const Horizon& horizon = {10, 10}) {
  const auto schedule = make_schedule(settings, horizon);
  std::vector<double> result;
  for (Index i = 0; i < count; ++i)
    result.push_back(
        schedule->factor({.step = i + 1, .epoch = i / 10, .epoch_progress = static_cast<double>(i % 10) / 10}));
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
  const std::string step = "step";
  EXPECT_THAT(factors({"constant", {{"warmup", 4}, {"by", step}}}, 6), are({0.25, 0.5, 0.75, 1, 1, 1}));
  EXPECT_THAT(factors({"step", {{"every", 3}, {"warmup", 2}, {"warmup_start", 0.5}, {"by", step}}}, 5),
              are({0.75, 1, 1, 0.1, 0.1}));
}

// One epoch of ten steps is ten steps.
TEST(Schedules, EpochsHaveFractions) {
  EXPECT_THAT(factors_of_steps({"constant", {{"warmup", 1}}}, 12),
              are({0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1, 1}));
  EXPECT_THAT(factors_of_steps({"constant", {{"warmup", 2}, {"warmup_start", 0.5}}}, 3), are({0.525, 0.55, 0.575}));
  // (1 + cos(pi i / 10)) / 2 of the only epoch, cos(pi / 5) = (1 + sqrt(5)) / 4
  const std::vector<double> cosine = factors_of_steps({"cosine", {}}, 9, {1, 10});
  EXPECT_THAT((std::vector<double>{cosine[0], cosine[2], cosine[5], cosine[8]}),
              are({1, (5 + std::sqrt(5)) / 8, 0.5, (3 - std::sqrt(5)) / 8}));
  EXPECT_THAT(factors_of_steps({"step", {{"every", 0.5}, {"gamma", 0.5}}}, 11),
              are({1, 1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.5, 0.25}));
  EXPECT_THAT(factors_of_steps({"one-cycle", {{"by", std::string("epoch")}}}, 10, {1, 10}),
              are(factors({"one-cycle", {}}, 10, {1, 10})));
}

TEST(Schedules, TheWholeRunIsWhatIsRun) {
  EXPECT_THAT(factors_of_steps({"one-cycle", {}}, 10, {10, 10, 10}), are(factors({"one-cycle", {}}, 10, {1, 10})));
  EXPECT_THAT(factors_of_steps({"polynomial", {}}, 4, {10, 10, 4}), are({1, 0.75, 0.5, 0.25}));
  EXPECT_THAT(factors_of_steps({"polynomial", {}}, 4, {1, 10, 400}), are({1, 0.9, 0.8, 0.7}));  // epochs end it before
  EXPECT_TRUE(follows_length_of_run({"cosine", {}}));
  EXPECT_FALSE(follows_length_of_run({"cosine", {{"length", 3}}}));
  EXPECT_FALSE(follows_length_of_run({"multi-step", {}}));
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
  for (const char* name : {"cosine", "polynomial", "one-cycle"})
    EXPECT_THAT(message({name, {{"length", -3}}}, {3, 3}), HasSubstr("length is -3; 0 (the whole run) and more"));
  EXPECT_THAT(message({"constant", {{"warmup", -1}}}, {3, 3}), HasSubstr("warmup is -1"));
  EXPECT_THAT(message({"multi-step", {{"milestones", std::vector<int64_t>{-1}}}}, {}), HasSubstr("a milestone is -1"));
}

}  // namespace
}  // namespace d5
