// SPDX-License-Identifier: Apache-2.0
// d5's formulas against LibTorch's own optimizers over 100 steps, where that module is there.
//
// How far two correct ones may be apart: every step rounds the parameter (u |p|) and the step itself, which carries a
// few roundings of its own and those of its states. A mean with decay b remembers 1 / (1 - b) steps of three roundings
// each; a sum over all steps remembers them all. Twice that, because both round.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "d5/backends/backend.hpp"
#include "d5/core/error.hpp"
#include "d5/training/optimizer.hpp"
#include "fixture.hpp"
#include "parameters.hpp"

namespace d5 {
namespace {

constexpr int steps = 100;

bool has_torch() {
  for (const BackendStatus& status : backend_statuses())
    if (status.name == "torch") return status.available;
  return false;
}

struct Pair {
  std::string name;
  OptimizerSettings ours, theirs;
  double memory;  // steps that states remember
};

std::vector<Pair> pairs() {
  const auto decayed = [](Attributes values) {
    values.set("weight_decay", 0.02);
    values.set("no_decay", std::string("*bias"));
    return values;
  };
  std::vector<Pair> all;
  for (const bool fused : {true, false}) {
    const auto with = [&](Attributes values) {
      values.set("fused", fused);
      return values;
    };
    const std::string note = fused ? ", fused" : ", not fused";
    all.push_back({"sgd" + note, {"sgd", decayed({})}, {"torch:sgd", with(decayed({}))}, 0});
    all.push_back({"momentum" + note, {"momentum", decayed({})}, {"torch:sgd", with(decayed({{"mu", 0.9}}))}, 10});
    all.push_back({"nesterov" + note, {"nesterov", {}}, {"torch:sgd", with({{"mu", 0.9}, {"nesterov", true}})}, 10});
    all.push_back({"adam" + note, {"adam", decayed({})}, {"torch:adam", with(decayed({}))}, 1000});
    all.push_back({"adamw" + note, {"adamw", decayed({})}, {"torch:adamw", with(decayed({}))}, 1000});
    const Attributes adagrad{{"rate_decay", 0.01}, {"start", 0.5}};
    all.push_back({"adagrad" + note, {"adagrad", adagrad}, {"torch:adagrad", with(adagrad)}, steps});
  }
  const Attributes rmsprop{{"mu", 0.5}, {"centred", true}};
  all.push_back({"rmsprop", {"rmsprop", decayed({})}, {"torch:rmsprop", decayed({})}, 100});
  all.push_back({"rmsprop, centred", {"rmsprop", rmsprop}, {"torch:rmsprop", rmsprop}, 100});
  return all;
}

TEST(TorchOptimizers, TakeTheSameHundredSteps) {
  if (!has_torch()) GTEST_SKIP() << "without LibTorch";
  for (const Pair& pair : pairs()) {
    ParameterSet mine = odd_parameters(), other = odd_parameters();
    const auto ours = make_optimizer(pair.ours, mine), theirs = make_optimizer(pair.theirs, other);
    const auto p = mine.masters(mine.all()).values<float>(), q = other.masters(other.all()).values<float>();
    double largest_step = 0, largest = 0;
    for (Index t = 1; t <= steps; ++t) {
      const std::vector<float> before(p.begin(), p.end());
      for (auto [set, optimizer] : {std::pair{&mine, ours.get()}, std::pair{&other, theirs.get()}}) {
        draw_gradients(*set, static_cast<uint64_t>(t));
        optimizer->new_input({.step = t, .rate_factor = t > 50 ? 0.5 : 1});
        optimizer->update(set->all());
      }
      for (size_t i = 0; i < p.size(); ++i) {
        largest_step = std::max(largest_step, std::fabs(static_cast<double>(p[i]) - before[i]));
        largest = std::max(largest, std::fabs(static_cast<double>(p[i])));
      }
    }
    const double u = round_off(DType::f32);
    const double tolerance = 2 * steps * (u * largest + (10 + 3 * pair.memory) * u * largest_step);
    double apart = 0;
    for (size_t i = 0; i < p.size(); ++i) apart = std::max(apart, std::fabs(static_cast<double>(p[i]) - q[i]));
    EXPECT_LE(apart, tolerance) << pair.name;
    EXPECT_GT(apart + largest_step, tolerance) << pair.name << ": a wrong step would go unseen";
  }
}

TEST(TorchOptimizers, StatesCanBePutBack) {
  if (!has_torch()) GTEST_SKIP() << "without LibTorch";
  for (const bool fused : {true, false}) {
    const OptimizerSettings settings{"torch:adam", {{"fused", fused}}};
    ParameterSet once = odd_parameters(), resumed = odd_parameters();
    const auto run = [&](ParameterSet& set, Optimizer& optimizer, Index first, Index last) {
      for (Index t = first; t <= last; ++t) {
        draw_gradients(set, static_cast<uint64_t>(t));
        optimizer.new_input({.step = t});
        optimizer.update(set.all());
      }
    };
    const auto a = make_optimizer(settings, once), b = make_optimizer(settings, resumed);
    run(once, *a, 1, 6);
    run(resumed, *b, 1, 3);
    const auto c = make_optimizer(settings, resumed);
    for (size_t i = 0; i < b->state().size(); ++i) c->state()[i].values.copy_from(b->state()[i].values);
    run(resumed, *c, 4, 6);
    EXPECT_TRUE(
        std::ranges::equal(once.masters(once.all()).values<float>(), resumed.masters(resumed.all()).values<float>()));
  }
}

// The sum of c_i x_i^2 / 2 with c from 1 to 50.
class Bowl final : public Evaluate {
 public:
  explicit Bowl(ParameterSet& set) : set_(set) {}
  double loss() override {
    double sum = 0;
    const auto x = values_of(set_);
    for (size_t i = 0; i < x.size(); ++i) sum += static_cast<double>(i + 1) * x[i] * x[i] / 2;
    return sum;
  }
  double loss_and_gradients() override {
    const auto x = values_of(set_);
    const auto g = set_.gradient("p").values<float>();
    for (size_t i = 0; i < x.size(); ++i) g[i] = static_cast<float>(i + 1) * x[i];
    losses.push_back(loss());
    return losses.back();
  }
  ParameterSet& parameters() override { return set_; }
  std::vector<double> losses;

 private:
  ParameterSet& set_;
};

TEST(TorchOptimizers, LbfgsEvaluatesWhereTheirsDoes) {
  if (!has_torch()) GTEST_SKIP() << "without LibTorch";
  const auto losses = [](const std::string& name) {
    ParameterSet set = one_parameter(std::vector<float>(50, 1.0f));
    const auto optimizer = make_optimizer({name, {{"history", int64_t{5}}}}, set);
    Bowl evaluate(set);
    for (Index t = 1; t <= 2; ++t) {
      optimizer->new_input({.step = t});
      optimizer->step(evaluate);
    }
    return evaluate.losses;
  };
  const auto ours = losses("lbfgs"), theirs = losses("torch:lbfgs");
  ASSERT_EQ(ours.size(), theirs.size());
  // An iteration multiplies an error by at most the ratio of curvatures, 50; six of them leave a digit of f32.
  for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(ours[i], theirs[i], 1e-3 * theirs[i]) << i;
  EXPECT_LT(ours.back(), 1e-3 * ours.front());
}

TEST(TorchOptimizers, WhatTheyLackIsNamed) {
  if (!has_torch()) GTEST_SKIP() << "without LibTorch";
  ParameterSet set = one_parameter({1}), narrow = parameters_of({{"p", {1}}}, DType::bf16);
  EXPECT_THROW(make_optimizer({"torch:adam", {{"clip_norm", 1.0}}}, set), UsageError);
  EXPECT_THROW(make_optimizer({"torch:adm", {}}, set), UsageError);
  EXPECT_THROW(make_optimizer({"torch:adam", {}}, narrow), Error);
  EXPECT_THROW(make_optimizer({"torch:adam", {}}, set)->update({0, 1}), Error);
}

TEST(TorchOptimizers, WhatCannotBeSavedHasNoCheckpoint) {
  if (!has_torch()) GTEST_SKIP() << "without LibTorch";
  const auto on = open_backend("reference");
  TrainingSettings settings = little_training();
  settings.optimizer = {"torch:lbfgs", {}};
  EXPECT_NO_THROW(Trainer(settings, *on));
  settings.checkpoint.file = "a.d5c";
  EXPECT_THROW(Trainer(settings, *on), UsageError);
}

}  // namespace
}  // namespace d5
