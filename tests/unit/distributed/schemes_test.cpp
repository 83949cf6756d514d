// SPDX-License-Identifier: Apache-2.0
// What schemes promise, on a little network with dropout and without batch normalisation, ranks being threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <thread>

#include "d5/distributed/algorithm.hpp"
#include "trained_ranks.hpp"

namespace d5 {
namespace {

using testing::HasSubstr;

constexpr double unit = 0x1p-24;  // half of what the last bit of 1 is worth

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return INFINITY;
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(static_cast<double>(a[i]) - b[i]));
  return largest;
}

// Two trainings that differ by the order of additions. In a step with learning rate h the mean gradient of n ranks is
// off by (n + 2) roundings of gradients of at most G, the update by two of parameters of at most P. What is off grows
// by 1 + h L a step; L <= |x|^2 |W|^2 / 2 + ... is below 16 for these inputs (64 pixels, deviation below 0.5) and
// weights.
double rounding_of(int ranks, double rate, Index steps, bool parameters_meet = false) {
  const double G = 4, P = 1;
  const double each = rate * (ranks + 2) * unit * G + (parameters_meet ? ranks + 2 : 2) * unit * P;
  return each * static_cast<double>(steps) * std::pow(1 + rate * 16, static_cast<double>(steps));
}

TEST(Dsgd, NRanksAreOneProcessWithTheWholeBatch) {
  const TrainingSettings settings = settings_with_dropout();
  const Trained alone = train_alone(settings);
  ASSERT_EQ(alone.results[0].steps, 12);  // 32, 32, 32, 8 a time
  for (const float weight : alone.weights[0]) ASSERT_LT(std::abs(weight), 1);
  for (const int ranks : {2, 4}) {
    for (const double megabytes : {-1.0, 0.0, 0.001, 4.0}) {
      const Trained several = train(settings, {.ranks = ranks, .values = {{"bucket_mb", megabytes}}});
      for (int r = 0; r < ranks; ++r) {
        const auto rank = static_cast<size_t>(r);
        EXPECT_EQ(several.results[rank].steps, 12);
        EXPECT_EQ(several.weights[rank], several.weights[0]);  // the same bits everywhere
        EXPECT_EQ(several.results[rank].samples, alone.results[0].samples);
      }
      EXPECT_LT(largest_difference(several.weights[0], alone.weights[0]), rounding_of(ranks, 0.01, 12)) << ranks;
      // Losses and accuracies are those of all ranks' samples.
      ASSERT_EQ(several.results[0].curve.size(), 3u);
      for (size_t e = 0; e < 3; ++e) {
        // Losses of about 1: a hundred of their roundings.
        EXPECT_NEAR(several.results[0].curve[e].loss, alone.results[0].curve[e].loss, 1e-5);
        EXPECT_NEAR(several.results[0].curve[e].test_loss, alone.results[0].curve[e].test_loss, 1e-5);
        EXPECT_EQ(several.results[0].curve[e].test_quality, several.results[1].curve[e].test_quality);
      }
    }
  }
}

// Whatever adds the gradients: with two ranks the same bits, with four one process up to rounding.
TEST(Dsgd, EveryAlgorithmIsOneProcess) {
  const TrainingSettings settings = settings_with_dropout();
  const Trained alone = train_alone(settings);
  const std::vector<float> two = train(settings, {}).weights[0];
  int ran = 0;
  for (const std::string& algorithm : registry_names(algorithms::kind)) {
    if (algorithm == "library" || algorithm == "pairwise") continue;  // threads have no library; no all-reduce
    if (algorithm == "forgetful") continue;                           // planted in collectives_test.cpp
    const Trained pair = train(settings, {.algorithm = algorithm});
    EXPECT_EQ(pair.weights[0], two) << algorithm;
    EXPECT_EQ(pair.weights[1], two) << algorithm;
    const Trained four = train(settings, {.ranks = 4, .per_node = 2, .algorithm = algorithm});
    EXPECT_LT(largest_difference(four.weights[0], alone.weights[0]), rounding_of(4, 0.01, 12)) << algorithm;
    for (const auto& weights : four.weights) EXPECT_EQ(weights, four.weights[0]) << algorithm;
    ++ran;
  }
  EXPECT_GE(ran, 7);  // ring, segmented_ring, recursive_doubling, rabenseifner, tree, hierarchical, sparse
}

// The bound above has teeth: other zeros of dropout are far outside of it.
TEST(Dsgd, WithoutDropoutItIsFarFromTheBound) {
  TrainingSettings settings = settings_with_dropout();
  const Trained one = train(settings, {});
  settings.network = [](Index samples, Mode) { return perceptron_with_dropout(samples, Mode::inference); };
  const Trained without_dropout = train(settings, {});
  EXPECT_GT(largest_difference(one.weights[0], without_dropout.weights[0]), 10 * rounding_of(2, 0.01, 12));
}

TEST(Dsgd, ModifiersSeeTheMeanGradient) {
  TrainingSettings settings = settings_with_dropout();
  settings.optimizer = {"sgd", {{"learning_rate", 0.01}, {"clip_norm", 0.05}, {"weight_decay", 0.01}}};
  const Trained alone = train_alone(settings), several = train(settings, {.ranks = 4});
  EXPECT_LT(largest_difference(several.weights[0], alone.weights[0]), rounding_of(4, 0.01, 12));
}

TEST(Dsgd, MicroBatchesAreReducedOnce) {
  TrainingSettings settings = settings_with_dropout();
  settings.accumulate = 2;
  const Trained alone = train_alone(settings), several = train(settings, {.ranks = 2});
  EXPECT_EQ(several.results[0].steps, alone.results[0].steps);
  EXPECT_LT(largest_difference(several.weights[0], alone.weights[0]), rounding_of(3, 0.01, 12));
  const double arena = several.number("least_bytes") / 2;  // 2 (n - 1) arenas
  // Of two ranks each sends one arena a step, however many micro-batches.
  EXPECT_EQ(several.number("sent_bytes"), arena * static_cast<double>(several.results[0].steps));
}

TEST(Dsgd, SamplesThatCannotBeDividedAreLeftOutAndSaid) {
  TrainingSettings settings = settings_with_dropout();
  settings.train = little_images("train", 103);
  const Trained several = train(settings, {.ranks = 4});
  EXPECT_EQ(several.results[0].samples, 3 * 100);
  EXPECT_THAT(several.results[0].warnings.at(0), HasSubstr("the last 3 samples"));
}

// A sum of two numbers is the same in either order: with two ranks there is nothing to round differently.
TEST(Schemes, SynchronousOnesAreDsgdBitForBitOnTwoRanks) {
  TrainingSettings settings = settings_with_dropout();
  for (const char* optimizer : {"momentum", "adam"}) {
    settings.optimizer = {optimizer, {{"learning_rate", 0.01}, {"clip_value", 0.05}, {"weight_decay", 0.01}}};
    const std::vector<float> dsgd = train(settings, {}).weights[0];
    const std::vector<std::pair<std::string, Attributes>> others{{"pssgd", {}},
                                                                 {"pssgd", {{"servers", int64_t{1}}}},
                                                                 {"zero1", {}},
                                                                 {"sparcml", {{"density", 1.0}}},
                                                                 {"hierarchical", {}}};
    for (const auto& other : others) {
      const Trained trained = train(settings, {.scheme = other.first, .values = other.second});
      EXPECT_EQ(trained.weights[0], dsgd) << optimizer << " " << other.first;
      EXPECT_EQ(trained.weights[1], dsgd) << optimizer << " " << other.first;
    }
  }
}

TEST(Schemes, SynchronousOnesAreDsgdOnFourRanks) {
  const TrainingSettings settings = settings_with_dropout();
  const std::vector<float> dsgd = train(settings, {.ranks = 4}).weights[0];
  const std::vector<std::pair<std::string, Attributes>> others{{"pssgd", {}},
                                                               {"pssgd", {{"servers", int64_t{3}}}},
                                                               {"zero1", {}},
                                                               {"sparcml", {{"density", 1.0}}},
                                                               {"hierarchical", {}}};
  for (const auto& other : others) {
    const Trained trained = train(settings, {.ranks = 4, .per_node = 2, .scheme = other.first, .values = other.second});
    EXPECT_LT(largest_difference(trained.weights[0], dsgd), rounding_of(4, 0.01, 12)) << other.first;
    for (const auto& weights : trained.weights) EXPECT_EQ(weights, trained.weights[0]) << other.first;
  }
}

// The mean of steps is the step of the mean, for gradient descent.
TEST(Schemes, AveragingEveryStepIsDsgd) {
  const TrainingSettings settings = settings_with_dropout();
  const std::vector<float> dsgd = train(settings, {.ranks = 4}).weights[0];
  const Attributes every{{"period", int64_t{1}}};
  EXPECT_LT(largest_difference(train(settings, {.ranks = 4, .scheme = "mavg", .values = every}).weights[0], dsgd),
            rounding_of(4, 0.01, 12, true));
}

TEST(Schemes, UnreducedStateIsTheRanksOwnAndTheModelIsOne) {
  const TrainingSettings settings = settings_with_dropout();
  for (const char* scheme : {"mavg", "easgd", "dpsgd", "asgd", "ssp"}) {
    const Trained trained = train(settings, {.ranks = 4, .scheme = scheme});
    for (size_t r = 1; r < 4; ++r) {
      EXPECT_EQ(trained.weights[r], trained.weights[0]) << scheme;
      EXPECT_EQ(trained.results[r].curve.back().test_quality, trained.results[0].curve.back().test_quality) << scheme;
    }
  }
}

// Neighbours get what a rank had when its step began, whatever its pass has made of running statistics since.
TEST(Dpsgd, WhatTravelsIsOfTheBeginningOfTheStep) {
  run_ranks({.ranks = 2}, [](Communicator& communicator) {
    ParameterSet set;
    set.add({.name = "weights", .spec = {DType::f32, {100}}});
    set.add({.name = "running", .spec = {DType::f32, {10}}, .trainable = false});
    set.freeze();
    const auto rank = static_cast<float>(communicator.rank());
    std::ranges::fill(set.masters(set.all()).values<float>(), rank);
    const auto optimizer = make_optimizer({"sgd", {{"learning_rate", 0.0}}}, set);
    const auto scheme = make_scheme("dpsgd", {}, &communicator);
    scheme->begin_training({.parameters = set, .optimizer = *optimizer, .make_optimizer = {}, .resumed = true});
    const Moment moment;
    optimizer->new_input(moment);
    Step step(set, *optimizer, moment);
    if (rank == 1) communicator.barrier();
    scheme->begin_step(step);
    if (rank == 0) {
      std::ranges::fill(set.master("running").values<float>(), 100.0f);
      communicator.barrier();
    }
    scheme->finish_step(step);
    EXPECT_EQ(set.master("weights").values<float>()[99], 0.5f);
    EXPECT_EQ(set.master("running").values<float>()[9], rank == 0 ? 50.5f : 0.5f);
  });
}

class Slow final : public TrainingEvents {
 public:
  void before(TrainingEvent event, const TrainingView& view) override {
    if (event == TrainingEvent::batch && !view.testing) std::this_thread::sleep_for(std::chrono::milliseconds(15));
  }
};

TEST(Schemes, StalenessIsMeasuredAndBounded) {
  TrainingSettings settings = settings_with_dropout();
  settings.train = little_images("train", 640);
  settings.stop.epochs = 1;  // 20 steps
  Slow slow;
  TrainingEvents idle;  // all ranks have a listener, or none
  const auto change = [&](int rank, TrainingSettings& own) {
    own.batch = 10;
    own.events.push_back(rank == 1 ? &slow : &idle);
  };
  const Trained free = train(settings, {.ranks = 3, .scheme = "asgd", .change = change});
  EXPECT_GT(free.number("steps_ahead_most"), 5);
  EXPECT_GT(free.number("staleness_most"), 0);
  EXPECT_EQ(free.number("pushes"), 3 * free.results[0].steps);
  for (const int64_t slack : {0, 1, 3}) {
    const Trained bound =
        train(settings, {.ranks = 3, .scheme = "ssp", .values = {{"slack", slack}}, .change = change});
    for (size_t r = 0; r < 3; ++r) EXPECT_LE(bound.number("steps_ahead_most", r), static_cast<double>(slack));
    EXPECT_EQ(bound.number("pushes"), 3 * bound.results[0].steps);
  }
}

// Every scheme reaches what a single process reaches, within what 100 test samples can tell (5 of them).
TEST(Schemes, EveryOneLearns) {
  TrainingSettings settings = little_training();
  settings.loader_threads = 0;
  settings.optimizer = {"sgd", {{"learning_rate", 0.1}}};
  settings.stop.epochs = 30;
  const double alone = train_alone(settings).results[0].curve.back().test_quality;
  ASSERT_GT(alone, 0.9);
  const std::vector<std::pair<std::string, Attributes>> all{{"dsgd", {}},
                                                            {"pssgd", {}},
                                                            {"asgd", {}},
                                                            {"ssp", {}},
                                                            {"dpsgd", {}},
                                                            {"dpsgd", {{"topology", "torus"}}},
                                                            {"dpsgd", {{"topology", "exponential"}}},
                                                            {"dpsgd", {{"topology", "one-peer"}}},
                                                            {"mavg", {}},
                                                            {"easgd", {}},
                                                            {"sparcml", {{"density", 0.1}}},
                                                            {"qsgd", {}},
                                                            {"compressed", {}},
                                                            {"compressed", {{"format", "f16"}}},
                                                            {"hierarchical", {{"period", int64_t{4}}}},
                                                            {"zero1", {}}};
  std::vector<std::string> seen;
  for (const auto& one : all) {
    seen.push_back(one.first);
    // Where each rank's gradients are an update of their own, four short ones go as far as one.
    const bool served = one.first == "asgd" || one.first == "ssp";
    const auto shorten = [&](int, TrainingSettings& own) {
      if (served) own.optimizer.values.set("learning_rate", 0.1 / 4);
    };
    const Trained trained =
        train(settings, {.ranks = 4, .per_node = 2, .scheme = one.first, .values = one.second, .change = shorten});
    EXPECT_GE(trained.results[0].curve.back().test_quality, alone - 0.05) << one.first;
    EXPECT_LT(trained.results[0].curve.back().loss, trained.results[0].curve.front().loss) << one.first;
    EXPECT_GT(trained.number("sent_bytes"), 0) << one.first;
    double sent = 0;
    for (size_t r = 0; r < 4; ++r) sent += trained.number("sent_bytes", r);
    EXPECT_GE(sent / static_cast<double>(trained.results[0].steps), trained.number("least_bytes") * 0.999) << one.first;
  }
  for (const std::string& name : registry_names(schemes::kind))
    EXPECT_TRUE(name == "single" || std::ranges::find(seen, name) != seen.end()) << name << " is not tested";
}

TEST(Schemes, SixteenBitsAreHalfAndFewBitsLess) {
  const TrainingSettings settings = settings_with_dropout();
  const double dense = train(settings, {}).number("sent_bytes");
  EXPECT_EQ(train(settings, {.scheme = "compressed"}).number("sent_bytes"), dense / 2);
  EXPECT_LT(train(settings, {.scheme = "qsgd"}).number("sent_bytes"), dense / 7);
  EXPECT_LT(train(settings, {.scheme = "sparcml", .values = {{"density", 0.01}}}).number("sent_bytes"), dense / 10);
}

// One of a group is the least that can travel, and what the least is counted by.
TEST(Schemes, AShareBelowOneOfAGroupIsOne) {
  const TrainingSettings settings = settings_with_dropout();
  const double dense = train(settings, {}).number("least_bytes");
  const Attributes few{{"density", 1e-5}, {"group", int64_t{64}}};
  EXPECT_DOUBLE_EQ(train(settings, {.scheme = "sparcml", .values = few}).number("least_bytes"), 2 * dense / 64);
}

std::string refusal(const TrainingSettings& settings, const On& on) {
  try {
    train(settings, on);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Two states of Adam, 4 bytes a number: a rank has those of its shard, which is cut at lines of 64 elements, and all
// together have each once.
TEST(Schemes, OwnersOfShardsHaveNoMoreStateThanTheirs) {
  TrainingSettings settings = settings_with_dropout();
  settings.optimizer = {"adam", {{"learning_rate", 0.01}}};
  settings.stop.steps = 1;
  for (const int ranks : {2, 4}) {
    const Trained with_all = train(settings, {.ranks = ranks});
    const size_t state = static_cast<size_t>(with_all.elements) * 2 * sizeof(float);
    for (const char* scheme : {"zero1", "pssgd"}) {
      const Trained sharded = train(settings, {.ranks = ranks, .scheme = scheme});
      size_t together = 0;
      for (size_t r = 0; r < static_cast<size_t>(ranks); ++r) {
        const size_t own = sharded.bytes[r] - (with_all.bytes[r] - state);
        EXPECT_NEAR(static_cast<double>(own), static_cast<double>(state) / ranks, 64 * 2 * sizeof(float)) << scheme;
        together += own;
      }
      EXPECT_EQ(together, state) << scheme;
    }
  }
}

TEST(Schemes, BadValuesAreRefusedWithTheLegalOnes) {
  TrainingSettings settings = settings_with_dropout();
  EXPECT_THAT(refusal(settings, {.scheme = "dsdg"}), HasSubstr("dsgd"));
  EXPECT_THAT(refusal(settings, {.values = {{"bucket", 1.0}}}), HasSubstr("bucket_mb"));
  EXPECT_THAT(refusal(settings, {.scheme = "qsgd", .values = {{"bits", int64_t{3}}}}), HasSubstr("2, 4, 8"));
  EXPECT_THAT(refusal(settings, {.scheme = "dpsgd", .values = {{"topology", "torus"}}}),
              HasSubstr("a torus of 2 ranks"));
  EXPECT_THAT(refusal(settings, {.scheme = "pssgd", .values = {{"servers", int64_t{3}}}}), HasSubstr("legal: 0 to 2"));
  settings.optimizer = {"sgd", {{"learning_rate", 0.01}, {"clip_norm", 1.0}}};
  EXPECT_THAT(refusal(settings, {.scheme = "zero1"}), HasSubstr("needs all gradients at once"));
  settings.scheme = "dsgd";
  EXPECT_THAT(
      [&] {
        try {
          train_alone(settings);
        } catch (const UsageError& error) {
          return std::string(error.what());
        }
        return std::string();
      }(),
      HasSubstr("legal: single"));
}

TEST(Schemes, OtherLayoutsAreFoundAtTheStart) {
  const auto change = [](int rank, TrainingSettings& own) {
    if (rank == 1)
      own.network = [](Index samples, Mode mode) {
        return build_network(
            "mlp", {{"features", int64_t{64}}, {"width", int64_t{15}}, {"depth", int64_t{1}}, {"classes", int64_t{4}}},
            samples, DType::f32, mode);
      };
  };
  EXPECT_THAT(refusal(settings_with_dropout(), {.change = change}), HasSubstr("rank 1 has other parameters"));
}

class Raises final : public TrainingEvents {
 public:
  void before(TrainingEvent event, const TrainingView& view) override {
    if (event == TrainingEvent::optimizer_step && view.step == 5) throw Error("planted in step 5");
  }
};

TEST(Schemes, ARankThatRaisesEndsAllWithItsMessage) {
  for (const char* scheme : {"dsgd", "pssgd", "zero1", "asgd", "ssp", "dpsgd", "mavg", "qsgd"}) {
    Raises raises;
    const auto change = [&](int rank, TrainingSettings& own) {
      own.stop.seconds = 1000;  // all of them ask each other whether to stop
      if (rank == 2) own.events.push_back(&raises);
    };
    EXPECT_EQ(refusal(settings_with_dropout(), {.ranks = 4, .scheme = scheme, .change = change}), "planted in step 5")
        << scheme;
  }
}

}  // namespace
}  // namespace d5
