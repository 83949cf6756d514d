// SPDX-License-Identifier: Apache-2.0
#include "d5/training/trainer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "d5/core/parallel.hpp"
#include "d5/core/rng.hpp"
#include "fixture.hpp"

namespace d5 {
namespace {

using testing::HasSubstr;

std::unique_ptr<Backend> backend(const std::string& name = "reference") { return open_backend(name); }

uint64_t trained(TrainingSettings settings, Backend& on, TrainingResult* result = nullptr) {
  Trainer trainer(std::move(settings), on);
  const TrainingResult done = trainer.run();
  if (result) *result = done;
  return weights_hash(trainer.parameters());
}

std::string refusal(TrainingSettings settings) {
  const auto on = backend();
  try {
    Trainer(std::move(settings), *on).run();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Trainer, LearnsWhatCanBeLearned) {
  const auto on = backend();
  TrainingSettings settings = little_training();
  settings.stop.epochs = 8;
  Trainer trainer(settings, *on);
  const TrainingResult result = trainer.run();
  EXPECT_EQ(result.stopped, "epochs");
  ASSERT_EQ(result.curve.size(), 8u);
  EXPECT_EQ(result.steps, 8 * 10);
  EXPECT_EQ(result.samples, 8 * 320);
  EXPECT_GT(result.curve.back().test_quality, 0.95);
  EXPECT_LT(result.curve.back().loss, result.curve.front().loss);
  // The closed sum of a step.
  const StepTimes& t = result.times;
  EXPECT_NEAR(t.input + t.operators + t.optimizer + t.residual(), t.whole, 1e-9);
  EXPECT_GE(t.residual(), 0);
  EXPECT_LE(t.whole, result.seconds);
}

TEST(Trainer, SameSeedSameWeightsWhateverTheThreads) {
  const auto on = backend();
  TrainingSettings settings = little_training();
  const uint64_t first = trained(settings, *on);
  settings.loader_threads = 0;
  EXPECT_EQ(trained(settings, *on), first);
  settings.seed = 2;
  EXPECT_NE(trained(settings, *on), first);
}

// Every tenth sample of another set cannot be read.
class Damaged final : public Dataset {
 public:
  explicit Damaged(const Dataset& whole) : whole_(whole) {}
  const std::vector<Field>& fields() const override { return whole_.fields(); }
  Index size() const override { return whole_.size(); }
  void read(Index i, Sample& into) const override {
    if (i % 10 == 0) throw SampleError("[damaged] no sample {}", i);
    whole_.read(i, into);
  }
  std::string where(Index i) const override { return fmt::format("damaged {}", i); }

 private:
  const Dataset& whole_;
};

TEST(Trainer, SamplesThatCannotBeReadAreCountedOrEndIt) {
  const auto on = backend();
  TrainingSettings settings = little_training();
  const std::vector<AugmentationStep> steps{
      {"normalise", {{"mean", std::vector<double>{0.5}}, {"deviation", std::vector<double>{0.25}}}}};
  const auto train = settings.train, test = settings.test;
  settings.train = std::make_shared<const Augmented>(std::make_shared<Damaged>(train->data()), steps, 1);
  settings.test = std::make_shared<const Augmented>(std::make_shared<Damaged>(test->data()), steps, 1);
  EXPECT_THROW(Trainer(settings, *on).run(), SampleError);
  settings.on_error = OnError::skip;
  Trainer trainer(settings, *on);
  const TrainingResult result = trainer.run();
  EXPECT_EQ(result.steps, 2 * 10);
  EXPECT_EQ(result.samples, 2 * 320);  // batches stay whole
  EXPECT_EQ(result.skipped.train, 2 * 32);
  EXPECT_EQ(result.skipped.test, 10);
  EXPECT_EQ(trainer.test_quality().samples(), 90);
  EXPECT_EQ(result.skipped.first.size(), 10u);
  settings.loader_threads = 3;
  EXPECT_EQ(trained(settings, *on), weights_hash(trainer.parameters()));
}

std::vector<std::string> other_backends() {
  std::vector<std::string> names;
  for (const BackendStatus& status : backend_statuses())
    if (status.available && (status.name == "onednn" || status.name == "torch")) names.push_back(status.name);
  return names;
}

// The same weights, batches and rule: after two steps weights differ by rounding alone. Sums have at most 2^12 terms,
// each rounded once to f32, and steps are small beside the weights.
TEST(Trainer, BackendsTrainTheSameNetwork) {
  TrainingSettings settings = little_training("lenet", {{"classes", int64_t{4}}});
  const Attributes images{{"size", int64_t{64}},
                          {"classes", int64_t{4}},
                          {"channels", int64_t{1}},
                          {"height", int64_t{28}},
                          {"width", int64_t{28}}};
  settings.train = settings.test = std::make_shared<const Augmented>(
      generate("generated-images", images),
      std::vector<AugmentationStep>{
          {"normalise", {{"mean", std::vector<double>{0.5}}, {"deviation", std::vector<double>{0.25}}}}},
      1);
  settings.stop.epochs = 1;
  const auto weights_on = [&](const std::string& name) {
    const auto on = backend(name);
    Trainer trainer(settings, *on);
    trainer.run();
    return canonical_parameters(trainer.parameters());
  };
  auto expected = weights_on("reference");
  std::ranges::sort(expected, {}, &std::pair<std::string, Tensor>::first);
  for (const std::string& name : other_backends()) {
    auto seen = weights_on(name);
    std::ranges::sort(seen, {}, &std::pair<std::string, Tensor>::first);
    ASSERT_EQ(seen.size(), expected.size()) << name;
    for (size_t p = 0; p < seen.size(); ++p) {
      const auto a = expected[p].second.values<float>(), b = seen[p].second.values<float>();
      ASSERT_EQ(a.size(), b.size());
      float largest = 0;
      for (const float value : a) largest = std::max(largest, std::abs(value));
      for (size_t i = 0; i < a.size(); ++i)
        ASSERT_NEAR(a[i], b[i], 0x1p-12f * largest) << name << " " << seen[p].first << " " << i;
    }
  }
}

// What a checkpoint writes into the set is what the network computes with, however the backend keeps it.
TEST(Trainer, ParametersHaveOneMeaningInEveryLayout) {
  for (const std::string& name : other_backends())
    for (const char* network : {"lenet", "lstm-lm", "mobilenet-v2"}) {
      const auto on = backend(name);
      const Graph graph = build_network(network, {}, 1, DType::f32, Mode::inference);
      ParameterSet set;
      const auto executable = on->compile(graph, set, {});
      for (const ParameterSet::Parameter& parameter : set.parameters()) {
        const Tensor values(DType::f32, parameter.spec.shape);
        fill_uniform(values, Rng(1, stream_of(parameter.name)), -1, 1);
        set_parameter(set, parameter.name, values);
        const Tensor read = executable->read(Executable::Role::value, parameter.name);
        EXPECT_EQ(std::memcmp(read.data(), values.data(), values.bytes()), 0) << name << " " << parameter.name;
        const Tensor back = canonical_part(set, set.masters(set.all()), parameter);
        EXPECT_EQ(std::memcmp(back.data(), values.data(), values.bytes()), 0) << name << " " << parameter.name;
      }
    }
}

// One step of gradient descent on a network without hidden layer, against the formula:
//   p -= lr * x^T (softmax(x p^T + b) - onehot) / n
TEST(Trainer, AStepIsTheFormula) {
  const auto on = backend();
  TrainingSettings settings = little_training(
      "mlp", {{"features", int64_t{64}}, {"width", int64_t{16}}, {"depth", int64_t{0}}, {"classes", int64_t{4}}});
  settings.optimizer = {"sgd", {{"learning_rate", 0.5}}};
  settings.sampler = "ordered";
  settings.stop.steps = 1;
  Trainer trainer(settings, *on);
  NamedTensors before;
  for (const auto& [name, value] : canonical_parameters(trainer.parameters())) before.emplace_back(name, value.clone());
  trainer.run();
  const auto find = [](const NamedTensors& all, const std::string& ending) {
    for (const auto& [name, value] : all)
      if (name.ends_with(ending)) return value.clone();
    return Tensor();
  };
  const NamedTensors after = canonical_parameters(trainer.parameters());
  const Tensor w = find(before, "weight"), b = find(before, "bias");
  ASSERT_TRUE(w.present() && b.present());
  std::vector<double> dw(4 * 64), db(4);
  for (Index i = 0; i < 32; ++i) {
    Sample sample(2);
    settings.train->read(0, i, sample);
    const auto x = sample[0].values<float>();
    double score[4], sum = 0;
    for (size_t c = 0; c < 4; ++c) {
      score[c] = b.values<float>()[c];
      for (size_t k = 0; k < 64; ++k) score[c] += static_cast<double>(w.values<float>()[c * 64 + k]) * x[k];
      sum += std::exp(score[c]);
    }
    for (size_t c = 0; c < 4; ++c) {
      const double d = (std::exp(score[c]) / sum - (sample[1].values<int64_t>()[0] == static_cast<int64_t>(c))) / 32;
      db[c] += d;
      for (size_t k = 0; k < 64; ++k) dw[c * 64 + k] += d * x[k];
    }
  }
  const Tensor w1 = find(after, "weight"), b1 = find(after, "bias");
  for (size_t i = 0; i < dw.size(); ++i) EXPECT_NEAR(w1.values<float>()[i], w.values<float>()[i] - 0.5 * dw[i], 1e-6);
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(b1.values<float>()[i], b.values<float>()[i] - 0.5 * db[i], 1e-6);
}

// The batch of a step, 32, is that of all its micro-batches: 4 times 8, whatever their number.
TEST(Trainer, TheLearningRateScalesWithTheBatchOfAStep) {
  const auto on = backend();
  TrainingSettings settings = little_training();
  settings.stop.epochs = 1;
  settings.optimizer = {"sgd",
                        {{"learning_rate", 0.01}, {"scaling", std::string("linear")}, {"reference_batch", int64_t{8}}}};
  for (const Index micros : {1, 4}) {
    settings.accumulate = micros;
    EXPECT_EQ(Trainer(settings, *on).run().curve.at(0).learning_rate, 0.04);
  }
}

// Ten steps of 32 samples: the rate of the last one is that of t = 9 / 10.
TEST(Trainer, SchedulesFallWithinAnEpoch) {
  const auto on = backend();
  TrainingSettings settings = little_training();
  settings.optimizer = {"sgd", {{"learning_rate", 1.0}}};
  settings.schedule = {"polynomial", {}};
  settings.stop.epochs = 1;
  EXPECT_NEAR(Trainer(settings, *on).run().curve.at(0).learning_rate, 0.1, 1e-12);
  settings.stop.epochs = 10;
  settings.stop.steps = 5;  // the run ends here: t = 4 / 5
  EXPECT_NEAR(Trainer(settings, *on).run().curve.at(0).learning_rate, 0.2, 1e-12);
}

// The mean of two halves is the mean of the whole: only rounding may differ.
TEST(Trainer, AccumulatedGradientsAreThoseOfTheWholeBatch) {
  const auto on = backend();
  TrainingSettings settings = little_training();
  settings.stop.steps = 4;
  Trainer whole(settings, *on);
  whole.run();
  settings.accumulate = 4;
  Trainer parts(settings, *on);
  EXPECT_EQ(parts.run().steps, 4);
  const NamedTensors a = canonical_parameters(whole.parameters()), b = canonical_parameters(parts.parameters());
  for (size_t p = 0; p < a.size(); ++p)
    for (Index i = 0; i < a[p].second.elements(); ++i)
      EXPECT_NEAR(a[p].second.values<float>()[static_cast<size_t>(i)],
                  b[p].second.values<float>()[static_cast<size_t>(i)], 2e-6);
}

// 116 samples by 32: the last step has 20, as one batch or as 16 and 4. Each sample counts once.
TEST(Trainer, AShortMicroBatchCountsAsManySamplesAsItHas) {
  const auto on = backend();
  TrainingSettings settings = little_training();
  settings.train = little_images("train", 116);
  settings.stop.epochs = 1;
  Trainer whole(settings, *on);
  EXPECT_EQ(whole.run().samples, 116);
  settings.accumulate = 2;
  Trainer parts(settings, *on);
  const TrainingResult result = parts.run();
  EXPECT_EQ(result.steps, 4);
  EXPECT_EQ(result.samples, 116);
  EXPECT_TRUE(result.warnings.empty());
  const NamedTensors a = canonical_parameters(whole.parameters()), b = canonical_parameters(parts.parameters());
  for (size_t p = 0; p < a.size(); ++p)
    for (Index i = 0; i < a[p].second.elements(); ++i)
      EXPECT_NEAR(a[p].second.values<float>()[static_cast<size_t>(i)],
                  b[p].second.values<float>()[static_cast<size_t>(i)], 2e-6);
}

TEST(Trainer, WhatIsLeftOutIsSaid) {
  const auto on = backend();
  TrainingSettings settings = little_training();
  settings.ranks = 3;
  settings.batch = 16;
  settings.stop.epochs = 1;
  TrainingResult result;
  trained(settings, *on, &result);
  ASSERT_EQ(result.warnings.size(), 1u);
  EXPECT_THAT(result.warnings[0], HasSubstr("the last 2 samples of an epoch's order are left out"));
}

TEST(Trainer, TheLastShortBatchIsTrainedOn) {
  const auto on = backend();
  TrainingSettings settings = little_training();
  settings.train = little_images("train", 100);  // 32, 32, 32, 4
  settings.stop.epochs = 1;
  TrainingResult result;
  trained(settings, *on, &result);
  EXPECT_EQ(result.steps, 4);
  EXPECT_EQ(result.samples, 100);
}

// Ranks take disjoint samples of the same order, and the same number of steps.
TEST(Trainer, RanksShareTheOrder) {
  const auto on = backend();
  for (int rank = 0; rank < 3; ++rank) {
    TrainingSettings settings = little_training();
    settings.rank = rank;
    settings.ranks = 3;
    settings.batch = 16;
    settings.stop.epochs = 1;
    TrainingResult result;
    trained(settings, *on, &result);
    EXPECT_EQ(result.steps, 7) << rank;          // of 106 samples: six batches of 16, one of 10
    EXPECT_EQ(result.samples, 3 * 106) << rank;  // the two that are left are nobody's
  }
}

TEST(Trainer, StopsAtTheTargetAndSaysWhen) {
  const auto on = backend();
  TrainingSettings settings = little_training();
  settings.stop = {.epochs = 50, .target = 0.9};
  TrainingResult result;
  trained(settings, *on, &result);
  EXPECT_EQ(result.stopped, "target");
  EXPECT_LT(result.curve.size(), 50u);
  ASSERT_TRUE(result.seconds_to_target);
  EXPECT_LE(*result.seconds_to_target, result.seconds);
  EXPECT_EQ(*result.epochs_to_target, static_cast<double>(result.curve.size()));
}

TEST(Trainer, StopsByTimeAndByPlateau) {
  const auto on = backend();
  TrainingSettings settings = little_training();
  settings.stop = {.epochs = 100000, .seconds = 0.2};
  TrainingResult result;
  trained(settings, *on, &result);
  EXPECT_EQ(result.stopped, "time");
  EXPECT_GE(result.seconds, 0.2);
  settings = little_training();
  settings.optimizer = {"sgd", {{"learning_rate", 0.0}}};
  settings.stop = {.epochs = 100, .plateau = 2};
  trained(settings, *on, &result);
  EXPECT_EQ(result.stopped, "plateau");
  EXPECT_EQ(result.curve.size(), 3u);
}

TEST(Trainer, ADivergedLossIsNamedWithItsPlace) {
  const auto on = backend();
  TrainingSettings settings = little_training();
  settings.optimizer = {"sgd", {{"learning_rate", 1e30}}};
  OpenEvents events;
  settings.events = {&events};
  TrainingResult result;
  trained(settings, *on, &result);
  EXPECT_EQ(result.stopped, "diverged");
  EXPECT_THAT(result.reason,
              testing::ContainsRegex("the loss is (nan|inf) at epoch 1, batch [0-9]+ \\(step [0-9]+\\)"));
  EXPECT_THAT(events.left(), testing::IsEmpty());
}

// Weights are sent beyond all numbers by the only step; its own loss was finite.
TEST(Trainer, ATestLossThatIsNoNumberIsDivergence) {
  const auto on = backend();
  TrainingSettings settings = little_training();
  settings.optimizer = {"sgd", {{"learning_rate", 1e38}}};
  settings.stop.steps = 1;
  const Folder folder("diverged");
  settings.checkpoint.file = folder.file("a.d5c");
  TrainingResult result;
  trained(settings, *on, &result);
  EXPECT_EQ(result.stopped, "diverged");
  EXPECT_EQ(result.steps, 1);
  EXPECT_THAT(result.reason, testing::ContainsRegex("the test loss is (-?nan|inf) after epoch 1 \\(step 1\\)"));
}

// As a perplexity does, the exponential of a loss.
class BeyondNumbers final : public Evaluation {
 public:
  static constexpr const char* about = "for a test";
  static constexpr const char* loss = "cross-entropy";
  static constexpr const char* quality = "size";
  static constexpr bool larger_is_better = false;
  explicit BeyondNumbers(const TensorSpec&) : Evaluation(0) {}
  double value() const override { return std::exp(1e4 * Evaluation::loss()); }

 protected:
  void see(const Tensor&, const Tensor&, std::span<const Index>) override {}
};
D5_REGISTER(tasks, "beyond-numbers", BeyondNumbers);

TEST(Trainer, AQualityThatIsNoNumberIsDivergence) {
  const auto on = backend();
  TrainingSettings settings = little_training();
  settings.task = "beyond-numbers";
  const Folder folder("beyond");
  settings.checkpoint.file = folder.file("a.d5c");
  TrainingResult result;
  trained(settings, *on, &result);
  EXPECT_EQ(result.stopped, "diverged");
  EXPECT_EQ(result.reason, "[train] the test size is inf after epoch 1 (step 10)");
  EXPECT_FALSE(std::filesystem::exists(settings.checkpoint.file));  // nobody goes on from there
}

TEST(Trainer, OneStepAloneCountsItsOwnSamples) {
  const auto on = backend();
  TrainingSettings settings = little_training();
  const Folder folder("one-step");
  settings.checkpoint.file = folder.file("a.d5c");
  settings.checkpoint.resume = true;
  TrainingResult result;
  for (const Index step : {1, 2}) {
    settings.stop.steps = step;
    trained(settings, *on, &result);
    EXPECT_EQ(result.timed.steps, 1);
    EXPECT_EQ(result.timed.samples, 32);  // the batch
  }
  EXPECT_EQ(result.samples, 64);
}

TEST(Trainer, ATaskThatTheTargetsDoNotFitIsNamed) {
  TrainingSettings settings = little_training();
  settings.task = "regression";
  EXPECT_THAT(refusal(settings),
              HasSubstr("task regression wants numbers as targets; with loss cross-entropy the field "
                        "'label' of the data holds classes"));
}

TEST(Trainer, RefusesWhatDoesNotFit) {
  TrainingSettings settings = little_training();
  settings.batch = 400;
  EXPECT_THAT(refusal(settings), HasSubstr("a batch of 400 is larger than the training set of 320 samples"));
  settings = little_training("mlp", {{"features", int64_t{64}}, {"width", int64_t{16}}, {"classes", int64_t{3}}});
  EXPECT_THAT(refusal(settings), HasSubstr("'label' of the data has 4 classes; mlp has 3: give it --classes 4"));
  settings = little_training("mlp", {{"features", int64_t{60}}, {"width", int64_t{16}}, {"classes", int64_t{4}}});
  EXPECT_THAT(refusal(settings), HasSubstr("with 64 values; 'features' of mlp takes 60"));
  settings = little_training();
  settings.accumulate = 3;
  EXPECT_THAT(refusal(settings), HasSubstr("a batch of 32 is not divided evenly into 3 micro-batches"));
  settings = little_training();
  settings.optimizer = {"momentum", {{"learning_rat", 0.1}}};
  EXPECT_THAT(refusal(settings), HasSubstr("learning_rate"));
}

// A label beyond the classes where the data does not say how many it has.
TEST(Trainer, ALabelBeyondTheClassesIsNamedWithItsSample) {
  TrainingSettings settings = little_training();
  class Wrong final : public Dataset {
   public:
    explicit Wrong(std::shared_ptr<const Augmented> good) : good_(std::move(good)), fields_(good_->fields()) {
      fields_[1].classes.reset();
    }
    const std::vector<Field>& fields() const override { return fields_; }
    Index size() const override { return good_->data().size(); }
    std::string where(Index i) const override { return good_->data().where(i); }
    void read(Index i, Sample& into) const override {
      good_->read(0, i, into);
      if (i == 40) into[1].values<int64_t>()[0] = 12;
    }

   private:
    std::shared_ptr<const Augmented> good_;
    std::vector<Field> fields_;
  };
  settings.sampler = "ordered";
  settings.train = std::make_shared<const Augmented>(std::make_shared<const Wrong>(little_images("train")),
                                                     std::vector<AugmentationStep>{}, 1);
  EXPECT_THAT(refusal(settings), HasSubstr("sample 40 is of class 12; the network has 4 classes, 0 to 3"));
}

class Counting final : public TrainingEvents {
 public:
  void before(TrainingEvent event, const TrainingView&) override { order.push_back("before " + name(event)); }
  void after(TrainingEvent event, const TrainingView& view) override {
    order.push_back("after " + name(event));
    if (event == TrainingEvent::optimizer_step) losses.push_back(view.loss);
  }
  std::string stop() override { return losses.size() == 3 ? "enough" : ""; }
  std::vector<std::string> order;
  std::vector<double> losses;
};

TEST(Trainer, EventsComeInOrderAndMayStop) {
  const auto on = backend();
  TrainingSettings settings = little_training();
  settings.test = little_images("test", 32);
  Counting counting;
  settings.events.push_back(&counting);
  TrainingResult result;
  trained(settings, *on, &result);
  EXPECT_EQ(result.stopped, "enough");
  EXPECT_EQ(result.steps, 3);
  const std::vector<std::string> step{
      "before sampling", "after sampling", "before batch", "before forward",        "after forward",
      "before backward", "after backward", "after batch",  "before optimizer_step", "after optimizer_step"};
  std::vector<std::string> expected{"before training", "before epoch", "before training_set"};
  for (int i = 0; i < 3; ++i) expected.insert(expected.end(), step.begin(), step.end());
  expected.insert(expected.end(), {"after training_set", "before test_set", "before batch", "after batch",
                                   "after test_set", "after epoch", "after training"});
  EXPECT_EQ(counting.order, expected);
}

}  // namespace
}  // namespace d5
