// SPDX-License-Identifier: Apache-2.0
#include "d5/training/gan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "fixture.hpp"

namespace d5 {
namespace {

using testing::HasSubstr;

NetworkOfSize network(const std::string& name, Index size) {
  return [name, size](Index samples, Mode mode) {
    Attributes values{{"size", size}, {"channels", int64_t{1}}, {"width", int64_t{4}}, {"depth", int64_t{1}}};
    if (name == "dcgan-generator") values.set("noise", int64_t{4});
    return build_network(name, values, samples, DType::f32, mode);
  };
}

// From -1 to 1, as a generator's tanh gives them.
std::shared_ptr<const Augmented> images(const std::string& part, Index samples) {
  Attributes values{{"size", samples},      {"classes", int64_t{4}}, {"channels", int64_t{1}},
                    {"height", int64_t{8}}, {"width", int64_t{8}},   {"strength", 8.0},
                    {"part", part}};
  const std::vector<double> half{0.5};
  return std::make_shared<const Augmented>(
      generate("generated-images", values),
      std::vector<AugmentationStep>{{"normalise", {{"mean", half}, {"deviation", half}}}}, 1);
}

TrainingSettings pair_of_networks() {
  TrainingSettings settings = little_training();
  settings.train = images("train", 320);
  settings.test = images("test", 100);
  settings.network = network("dcgan-generator", 8);
  settings.loss = "binary-cross-entropy";
  settings.task = "gan";
  settings.optimizer = {"adam", {{"learning_rate", 0.002}, {"beta1", 0.5}}};
  return settings;
}

struct Done {
  uint64_t generator, discriminator;
  TrainingResult result;
};
Done trained(const TrainingSettings& settings, const std::string& backend = "reference") {
  const auto on = open_backend(backend);
  AdversarialTrainer trainer(settings, network("dcgan-discriminator", 8), *on);
  TrainingResult result = trainer.run();
  return {weights_hash(trainer.parameters()), weights_hash(trainer.discriminator_parameters()), result};
}

std::string refusal(const TrainingSettings& settings, Index size = 8) {
  const auto on = open_backend("reference");
  try {
    AdversarialTrainer(settings, network("dcgan-discriminator", size), *on);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// A generator that went the wrong way would be found out: its loss would rise from log 2, where neither wins.
TEST(Gan, TheGeneratorComesNearerToTheData) {
  TrainingSettings settings = pair_of_networks();
  settings.stop.epochs = 40;
  const Done done = trained(settings);
  const auto& curve = done.result.curve;
  ASSERT_EQ(curve.size(), 40u);
  EXPECT_EQ(done.result.steps, 40 * 10);
  EXPECT_EQ(done.result.samples, 40 * 320);
  double quality = 0, loss = 0;
  for (size_t i = 30; i < 40; ++i) {
    quality += curve[i].test_quality / 10;
    loss += curve[i].loss / 10;
  }
  EXPECT_LT(quality, 0.85 * curve.front().test_quality);
  EXPECT_NEAR(loss, std::log(2), 0.3);
  const StepTimes& t = done.result.times;
  EXPECT_GE(t.residual(), 0);
  EXPECT_LE(t.whole, done.result.seconds);
}

TEST(Gan, SameSeedSameWeights) {
  TrainingSettings settings = pair_of_networks();
  settings.stop.steps = 5;
  const Done a = trained(settings), b = trained(settings);
  EXPECT_EQ(a.result.stopped, "steps");
  EXPECT_EQ(a.generator, b.generator);
  EXPECT_EQ(a.discriminator, b.discriminator);
  settings.seed = 2;
  const Done other = trained(settings);
  EXPECT_NE(a.generator, other.generator);
  EXPECT_NE(a.discriminator, other.discriminator);
}

TEST(Gan, BrokenOffAndResumedItIsTheSame) {
  TrainingSettings settings = pair_of_networks();
  const Done whole = trained(settings);
  const Folder folder("gan");
  settings.checkpoint.file = folder.file("a.d5c");
  settings.checkpoint.resume = true;
  for (const Index step : {1, 7, 10, 13}) {
    settings.stop.steps = step;
    EXPECT_EQ(trained(settings).result.stopped, "steps");
  }
  settings.stop.steps = 0;
  const Done resumed = trained(settings);
  EXPECT_EQ(resumed.result.resumed_at, 13);
  EXPECT_EQ(resumed.generator, whole.generator);
  EXPECT_EQ(resumed.discriminator, whole.discriminator);
  ASSERT_EQ(resumed.result.curve.size(), whole.result.curve.size());
  EXPECT_EQ(resumed.result.curve.back().test_quality, whole.result.curve.back().test_quality);
  EXPECT_EQ(trained(settings).generator, whole.generator);  // finished: it says the same
}

// The same formulas by other kernels: rounding alone is different, 1e-7 of values below 1 in sums of some thousand
// terms.
TEST(Gan, BackendsAgreeOnAStep) {
  std::unique_ptr<Backend> other;
  try {
    other = open_backend("onednn");
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  const auto reference = open_backend("reference");
  TrainingSettings settings = pair_of_networks();
  settings.optimizer = {"sgd", {{"learning_rate", 0.1}}};
  settings.stop.steps = 2;
  AdversarialTrainer a(settings, network("dcgan-discriminator", 8), *reference);
  AdversarialTrainer b(settings, network("dcgan-discriminator", 8), *other);
  a.run();
  b.run();
  for (const auto& [name, value] : canonical_parameters(a.parameters())) {
    const NamedTensors all = canonical_parameters(b.parameters());
    const auto found = std::ranges::find(all, name, &std::pair<std::string, Tensor>::first);
    ASSERT_NE(found, all.end()) << name;
    for (size_t i = 0; i < value.values<float>().size(); ++i)
      ASSERT_NEAR(value.values<float>()[i], found->second.values<float>()[i], 1e-4) << name;
  }
}

TEST(Gan, RefusesWhatDoesNotFit) {
  EXPECT_EQ(refusal(pair_of_networks()), "");
  EXPECT_THAT(refusal(pair_of_networks(), 16), HasSubstr("of dcgan-discriminator takes f32[32x1x16x16]"));
  TrainingSettings settings = pair_of_networks();
  settings.accumulate = 2;
  EXPECT_THAT(refusal(settings), HasSubstr("accumulate is 2"));
  settings = pair_of_networks();
  settings.batch = 400;
  EXPECT_THAT(refusal(settings), HasSubstr("larger than the training set of 320 samples"));
}

TEST(Gan, EventsEndWhereItDiverges) {
  TrainingSettings settings = pair_of_networks();
  settings.optimizer = {"sgd", {{"learning_rate", 1e30}}};
  OpenEvents events;
  settings.events = {&events};
  EXPECT_EQ(trained(settings).result.stopped, "diverged");
  EXPECT_THAT(events.left(), testing::IsEmpty());
}

// Two pixels: (0 and 2) against (1 and 1), mean and deviation 1 and 1 against 1 and 0; (3 and 3) against (1 and 1), 2
// apart.
TEST(Gan, DistanceIsTheFormula) {
  const auto evaluation = registered<tasks>("gan").make({DType::f32, {2, 2}});
  const std::vector<Index> samples{0, 1};
  evaluation->add(0.5, Tensor::from<float>({2, 2}, {1, 1, 1, 1}), Tensor::from<float>({2, 2}, {0, 3, 2, 3}), samples);
  EXPECT_DOUBLE_EQ(evaluation->value(), std::sqrt((1.0 + 4.0) / 2));
  evaluation->reset();
  EXPECT_EQ(evaluation->value(), 0);
}

}  // namespace
}  // namespace d5
