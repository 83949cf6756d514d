// SPDX-License-Identifier: Apache-2.0
// A training that is broken off at any step and goes on from its checkpoint gives the same weights, bit for bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "d5/training/saved_training.hpp"
#include "fixture.hpp"

namespace d5 {
namespace {

using testing::HasSubstr;

struct Done {
  uint64_t weights;
  TrainingResult result;
};

Done train(const TrainingSettings& settings, Backend& on) {
  Trainer trainer(settings, on);
  TrainingResult result = trainer.run();
  return {weights_hash(trainer.parameters()), result};
}

// Broken off after each of `steps`, resumed each time; must be what one go gives.
void expect_same_when_broken_off(TrainingSettings settings, const std::string& backend,
                                 const std::vector<Index>& steps) {
  const auto on = open_backend(backend);
  const Done whole = train(settings, *on);
  const Folder folder("resume");
  settings.checkpoint.file = folder.file("a.d5c");
  settings.checkpoint.resume = true;
  for (const Index step : steps) {
    settings.stop.steps = step;
    EXPECT_EQ(train(settings, *on).result.stopped, "steps");
  }
  settings.stop.steps = 0;
  const Done resumed = train(settings, *on);
  EXPECT_EQ(resumed.result.resumed_at, steps.back());
  EXPECT_EQ(resumed.weights, whole.weights);
  ASSERT_EQ(resumed.result.curve.size(), whole.result.curve.size());
  for (size_t i = 0; i < whole.result.curve.size(); ++i) {
    EXPECT_EQ(resumed.result.curve[i].loss, whole.result.curve[i].loss) << i;
    EXPECT_EQ(resumed.result.curve[i].test_loss, whole.result.curve[i].test_loss) << i;
    EXPECT_EQ(resumed.result.curve[i].quality, whole.result.curve[i].quality) << i;
  }
  // Once more: it is finished, and says the same.
  const Done again = train(settings, *on);
  EXPECT_EQ(again.weights, whole.weights);
  EXPECT_EQ(again.result.stopped, "epochs");
  EXPECT_EQ(again.result.steps, whole.result.steps);
}

TEST(Resume, AtAnyStep) { expect_same_when_broken_off(little_training(), "reference", {1, 2, 7, 10, 11, 19}); }

TEST(Resume, WithStateOfTheOptimizerAndASchedule) {
  TrainingSettings settings = little_training();
  settings.optimizer = {"adam", {{"learning_rate", 0.01}}};
  settings.schedule = {"constant", {{"warmup", 12.0}}};
  settings.accumulate = 2;
  expect_same_when_broken_off(settings, "reference", {3, 15});
}

TEST(Resume, WithAugmentationAndAShortBatch) {
  TrainingSettings settings = little_training();
  settings.train = little_images("train", 100, {{"crop", {{"padding", int64_t{1}}}}, {"flip", {}}});
  expect_same_when_broken_off(settings, "reference", {3, 4, 5});
}

// Running statistics and dropout, in the blocked layouts of a fast backend.
TEST(Resume, OnOnednnWithBatchNormalisation) {
  try {
    open_backend("onednn");
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  TrainingSettings settings = little_training("resnet-20", {{"classes", int64_t{4}}});
  const auto images = [](const std::string& part, Index samples) {
    Attributes values{{"size", samples}, {"classes", int64_t{4}}, {"part", part}};
    return std::make_shared<const Augmented>(generate("generated-images", values),
                                             std::vector<AugmentationStep>{{"normalise", {}}}, 1);
  };
  settings.train = images("train", 40);
  settings.test = images("test", 8);
  settings.batch = 8;
  expect_same_when_broken_off(settings, "onednn", {2, 7});
}

// Masters in f32, weights in bf16 in whatever layout the backend likes.
TEST(Resume, OnOnednnInBf16) {
  std::unique_ptr<Backend> on;
  try {
    on = open_backend("onednn");
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  TrainingSettings settings = little_training();
  settings.compute = DType::bf16;
  settings.network = [](Index samples, Mode mode) {
    const Attributes values{{"classes", int64_t{4}}, {"size", int64_t{16}}};
    return build_network("lenet", values, samples, DType::bf16, mode);
  };
  const auto images = [](const std::string& part, Index samples) {
    Attributes values{{"size", samples},       {"classes", int64_t{4}}, {"channels", int64_t{1}},
                      {"height", int64_t{16}}, {"width", int64_t{16}},  {"part", part}};
    return std::make_shared<const Augmented>(generate("generated-images", values),
                                             std::vector<AugmentationStep>{{"normalise", {}}}, 1);
  };
  settings.train = images("train", 64);
  settings.test = images("test", 16);
  settings.batch = 16;
  try {
    Trainer(settings, *on);
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();  // a processor without it
  }
  expect_same_when_broken_off(settings, "onednn", {1, 6});
}

std::string refusal(const TrainingSettings& settings) {
  const auto on = open_backend("reference");
  try {
    train(settings, *on);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Resume, RefusesWhatIsNotItsOwn) {
  const Folder folder("refuse");
  TrainingSettings settings = little_training();
  settings.checkpoint.file = folder.file("a.d5c");
  settings.checkpoint.resume = true;
  settings.checkpoint.identity = R"({"network":"mlp","seed":1})";
  settings.stop.steps = 2;
  EXPECT_EQ(refusal(settings), "");
  TrainingSettings other = settings;
  other.checkpoint.identity = R"({"network":"mlp","seed":2})";
  EXPECT_THAT(refusal(other), HasSubstr("is of another training: seed is 1 there and 2 here"));
  other = little_training(
      "mlp", {{"features", int64_t{64}}, {"width", int64_t{8}}, {"depth", int64_t{1}}, {"classes", int64_t{4}}});
  other.checkpoint = settings.checkpoint;
  EXPECT_THAT(refusal(other), HasSubstr("it is of another network"));
  other = settings;
  other.optimizer = {"adam", {{"learning_rate", 0.01}}};
  EXPECT_THAT(refusal(other), HasSubstr("of another network or optimizer"));
  std::fstream file(settings.checkpoint.file, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-8, std::ios::end);
  file.put('\x55');
  file.close();
  EXPECT_THAT(refusal(settings), HasSubstr("is damaged"));
}

TEST(Resume, BeginningAnewBesideOtherCheckpointsIsSaid) {
  const auto on = open_backend("reference");
  const Folder folder("anew");
  TrainingSettings settings = little_training();
  settings.checkpoint.file = folder.file("a.d5c");
  settings.checkpoint.resume = true;
  settings.checkpoint.identity = R"({"epochs":2,"seed":1})";
  settings.stop.steps = 2;
  EXPECT_TRUE(train(settings, *on).result.warnings.empty());
  settings.checkpoint.file = folder.file("b.d5c");
  settings.checkpoint.identity = R"({"epochs":3,"seed":1})";
  const TrainingResult anew = train(settings, *on).result;
  EXPECT_EQ(anew.resumed_at, 0);
  ASSERT_EQ(anew.warnings.size(), 1u);
  EXPECT_THAT(anew.warnings[0], HasSubstr("began anew: there is no checkpoint of this case in"));
  EXPECT_THAT(anew.warnings[0], HasSubstr("a.d5c differs in epochs (2 there, 3 here)"));
}

// JSON has no such numbers: they are null in the file.
TEST(Resume, NumbersThatAreNotFiniteAreReadBack) {
  const Folder folder("null");
  TrainingSettings settings = little_training();
  settings.checkpoint.file = folder.file("a.d5c");
  TrainingResult before, after;
  before.curve.push_back({1, 10, 0.5, 1.5, INFINITY, NAN, NAN, 0.1});
  save_training(settings, {.step = 10, .qualities = {NAN}}, 0, {}, before);
  SavedPosition at{.qualities = {}};
  ASSERT_TRUE(load_training(settings, at, after, [](const Checkpoint&) {}));
  ASSERT_EQ(after.curve.size(), 1u);
  EXPECT_EQ(after.curve[0].loss, 1.5);
  EXPECT_FALSE(std::isfinite(after.curve[0].quality));
  EXPECT_TRUE(std::isnan(after.curve[0].test_loss));
  ASSERT_EQ(at.qualities.size(), 1u);
  EXPECT_TRUE(std::isnan(at.qualities[0]));
}

// The folder of the checkpoint cannot be written: the training goes on and says so.
TEST(Resume, ACheckpointThatCannotBeWrittenIsNamed) {
  TrainingSettings settings = little_training();
  const Folder folder("full");
  std::ofstream(folder.file("a")) << "a file, not a folder";
  settings.checkpoint.file = folder.file("a/b.d5c");
  const auto on = open_backend("reference");
  const Done done = train(settings, *on);
  EXPECT_EQ(done.result.stopped, "epochs");
  ASSERT_FALSE(done.result.warnings.empty());
  EXPECT_THAT(done.result.warnings[0], HasSubstr("cannot be written"));
  EXPECT_THAT(done.result.warnings[0], HasSubstr("; there is none so far"));
}

}  // namespace
}  // namespace d5
