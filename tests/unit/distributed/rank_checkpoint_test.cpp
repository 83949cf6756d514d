// SPDX-License-Identifier: Apache-2.0
// Trainings by several ranks that end in the middle and go on: with as many ranks bit for bit, with others as means.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "trained_ranks.hpp"

namespace d5 {
namespace {

using testing::HasSubstr;

struct Planted : Error {
  using Error::Error;
};

// A rank that raises where it is told to.
class Fault final : public TrainingEvents {
 public:
  Fault(int rank, TrainingEvent event, Index step) : rank_(rank), event_(event), step_(step) {}
  void before(TrainingEvent event, const TrainingView& view) override {
    if (view.rank == rank_ && event == event_ && view.step == step_ && !view.testing) throw Planted("a planted fault");
  }

 private:
  int rank_;
  TrainingEvent event_;
  Index step_;
};

TrainingSettings saved_every(Index steps, const std::string& file) {
  TrainingSettings s = settings_with_dropout();  // 4 steps an epoch, 3 epochs
  s.optimizer = {"adam", {{"learning_rate", 0.01}}};
  s.checkpoint.file = file;
  s.checkpoint.every = steps;
  s.checkpoint.resume = true;
  return s;
}

void expect_broken_off(TrainingSettings settings, const On& on, Fault fault) {
  settings.events.push_back(&fault);
  EXPECT_THROW(train(settings, on), Planted);
}

size_t files_in(const std::string& folder) {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

struct SchemeCase {
  std::string scheme;
  Attributes values = {};
};
void PrintTo(const SchemeCase& c, std::ostream* out) { *out << c.scheme; }

class RankCheckpoint : public testing::TestWithParam<SchemeCase> {};

TEST_P(RankCheckpoint, GoesOnBitForBit) {
  for (const int ranks : {2, 4}) {
    const On on{.ranks = ranks, .scheme = GetParam().scheme, .values = GetParam().values};
    const Folder folder(fmt::format("ranks{}", ranks));
    TrainingSettings settings = saved_every(3, "");
    const Trained whole = train(settings, on);
    settings.checkpoint.file = folder.file("a.d5c");
    expect_broken_off(settings, on, {ranks - 1, TrainingEvent::optimizer_step, 5});  // saved at 3 and after epoch 1
    expect_broken_off(settings, on, {0, TrainingEvent::checkpoint, 9});              // saved at 6 and 8
    const Trained resumed = train(settings, on);
    EXPECT_EQ(resumed.results[0].resumed_at, 8);
    for (size_t r = 0; r < static_cast<size_t>(ranks); ++r) {
      EXPECT_EQ(resumed.weights[r], whole.weights[r]) << ranks << " ranks, rank " << r;
      ASSERT_EQ(resumed.results[r].curve.size(), whole.results[r].curve.size());
      for (size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(resumed.results[r].curve[i].loss, whole.results[r].curve[i].loss);
        EXPECT_EQ(resumed.results[r].curve[i].test_loss, whole.results[r].curve[i].test_loss);
      }
    }
    EXPECT_EQ(files_in(folder.file("")), static_cast<size_t>(ranks));  // no part of those before is left
    const Trained again = train(settings, on);                         // it is finished, and says the same
    EXPECT_EQ(again.results[0].stopped, "epochs");
    EXPECT_EQ(again.weights, whole.weights);
  }
}

INSTANTIATE_TEST_SUITE_P(Schemes, RankCheckpoint,
                         testing::Values(SchemeCase{"dsgd"}, SchemeCase{"pssgd"},
                                         SchemeCase{"pssgd", {{"servers", int64_t{1}}}}, SchemeCase{"zero1"},
                                         SchemeCase{"sparcml", {{"density", 0.1}}}, SchemeCase{"qsgd"},
                                         SchemeCase{"compressed"}, SchemeCase{"hierarchical"},
                                         SchemeCase{"mavg", {{"period", int64_t{4}}}}, SchemeCase{"easgd"},
                                         SchemeCase{"dpsgd"}));

// Which size is chosen depends on times, so what goes on is compared with the very run that saved it.
TEST(RankCheckpoints, ABucketSizeThatWasChosenByTryingStays) {
  class Copies final : public TrainingEvents {
   public:
    Copies(std::string from, std::string to) : from_(std::move(from)), to_(std::move(to)) {}
    void after(TrainingEvent event, const TrainingView& view) override {
      if (event == TrainingEvent::checkpoint && view.rank == 0 && view.step == 28)
        std::filesystem::copy(from_, to_, std::filesystem::copy_options::recursive);
    }

   private:
    std::string from_, to_;
  };
  const Folder folder("chosen"), copied("chosen-copy");
  TrainingSettings settings = saved_every(0, folder.file("a.d5c"));
  settings.stop.epochs = 10;  // 40 steps; a few sizes are tried for six steps each
  Copies copies(folder.file(""), copied.file("28"));
  settings.events.push_back(&copies);
  const On on{.ranks = 4, .values = {{"bucket_mb", -1.0}}, .algorithm = "ring"};
  const Trained whole = train(settings, on);
  settings.events.clear();
  settings.checkpoint.file = copied.file("28/a.d5c");
  const Trained resumed = train(settings, on);
  EXPECT_EQ(resumed.results[0].resumed_at, 28);
  EXPECT_EQ(resumed.number("bucket_mb"), whole.number("bucket_mb"));
  EXPECT_EQ(resumed.weights, whole.weights);
}

// Updates come in an order of their own, so bits cannot be asked for; every sample is learned from once.
TEST(RankCheckpoints, AsynchronousSchemesGoOnWithWhatTheServersHad) {
  for (const std::string scheme : {"asgd", "ssp"}) {
    const Folder folder(scheme);
    const TrainingSettings settings = saved_every(3, folder.file("a.d5c"));
    const On on{.ranks = 2, .scheme = scheme};
    const Trained whole = train(saved_every(0, ""), on);
    expect_broken_off(settings, on, {1, TrainingEvent::optimizer_step, 9});
    const Trained resumed = train(settings, on);
    EXPECT_EQ(resumed.results[0].resumed_at, 9);
    EXPECT_EQ(resumed.results[0].steps, 12);
    EXPECT_EQ(resumed.weights[0], resumed.weights[1]);
    // The first curve points are those before it ended; the loss goes on falling from there.
    EXPECT_LT(resumed.results[0].curve[2].test_loss, resumed.results[0].curve[0].test_loss);
    EXPECT_NEAR(resumed.results[0].curve[2].test_loss, whole.results[0].curve[2].test_loss,
                whole.results[0].curve[0].test_loss - whole.results[0].curve[2].test_loss);
  }
}

TEST(RankCheckpoints, OneThatIsNotWholeIsNotThere) {
  const Folder folder("whole");
  const TrainingSettings settings = saved_every(3, folder.file("a.d5c"));
  const On on{.ranks = 3, .scheme = "mavg"};
  expect_broken_off(settings, on, {1, TrainingEvent::optimizer_step, 5});
  for (const auto& entry : std::filesystem::directory_iterator(folder.file("")))
    if (entry.path().extension() == ".r2") std::filesystem::remove(entry.path());
  try {
    train(settings, on);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("is not whole"));
    EXPECT_THAT(error.what(), HasSubstr("rank 2"));
  }
}

TEST(RankCheckpoints, APartThatIsDamagedIsNamed) {
  const Folder folder("damaged");
  const TrainingSettings settings = saved_every(3, folder.file("a.d5c"));
  const On on{.ranks = 2, .scheme = "mavg"};
  expect_broken_off(settings, on, {1, TrainingEvent::optimizer_step, 5});
  for (const auto& entry : std::filesystem::directory_iterator(folder.file("")))
    if (entry.path().extension() == ".r1") {
      std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(static_cast<std::streamoff>(std::filesystem::file_size(entry.path())) - 8);
      file.put('x');
    }
  try {
    train(settings, on);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("is damaged"));
    EXPECT_THAT(error.what(), HasSubstr(".r1"));
  }
}

TEST(RankCheckpoints, WhereOneCannotBeWrittenTheLastGoodOneStays) {
  class Blocks final : public TrainingEvents {
   public:
    explicit Blocks(std::string file) : file_(std::move(file)) {}
    void before(TrainingEvent event, const TrainingView& view) override {
      if (event == TrainingEvent::checkpoint && view.rank == 0) std::filesystem::create_directories(file_ + ".part");
    }

   private:
    std::string file_;
  };
  const Folder folder("blocked");
  TrainingSettings settings = saved_every(3, folder.file("a.d5c"));
  const On on{.ranks = 2, .scheme = "dsgd"};
  settings.stop.steps = 3;
  train(settings, on);
  settings.stop.steps = 7;
  Blocks blocks(settings.checkpoint.file);
  settings.events.push_back(&blocks);
  const Trained second = train(settings, on);
  ASSERT_FALSE(second.results[0].warnings.empty());
  EXPECT_THAT(second.results[0].warnings[0], HasSubstr("the last good one stays"));
  EXPECT_THAT(second.results[1].warnings[0], HasSubstr("rank 0 cannot write"));
  EXPECT_EQ(files_in(folder.file("")), 3u);  // the checkpoint, its part, and what stands in the way
  std::filesystem::remove(settings.checkpoint.file + ".part");
  settings.events.clear();
  EXPECT_EQ(train(settings, on).results[0].resumed_at, 3);
}

TEST(RankCheckpoints, ARankThatIsLostMeanwhileEndsTheOthers) {
  class Ended final : public TrainingEvents {
   public:
    void after(TrainingEvent event, const TrainingView&) override {
      saved = saved || event == TrainingEvent::checkpoint;
    }
    std::atomic<bool> saved{false};
  };
  const Folder folder("meanwhile");
  TrainingSettings settings = saved_every(3, folder.file("a.d5c"));
  Ended ended;
  settings.events.push_back(&ended);
  expect_broken_off(settings, {.ranks = 2, .scheme = "dsgd"}, {1, TrainingEvent::checkpoint, 3});
  EXPECT_FALSE(ended.saved);  // rank 0 must not take it for a file that cannot be written, and go on
}

// Ranks may be more or fewer than before. With equal ranks, dsgd takes the same batches of all ranks whatever their
// number: what differs is the order of additions.
class OtherRanks : public testing::TestWithParam<SchemeCase> {};

TEST_P(OtherRanks, GoOn) {
  const std::string scheme = GetParam().scheme;
  for (const auto& [before, after] : {std::pair{2, 4}, std::pair{4, 2}, std::pair{4, 1}}) {
    SCOPED_TRACE(fmt::format("{} {} to {}", scheme, before, after));
    const Folder folder("joined");
    const std::string file = folder.file("a.d5c");
    On on{.ranks = before, .scheme = scheme, .values = GetParam().values};
    expect_broken_off(saved_every(3, file), on, {1, TrainingEvent::optimizer_step, 7});
    TrainingSettings settings = saved_every(3, folder.file("b.d5c"));
    settings.checkpoint.from = file;
    const Trained whole = train(saved_every(0, ""), on);
    on.ranks = after;
    const Trained joined = train(settings, on);
    EXPECT_EQ(joined.results[0].resumed_at, 6);
    EXPECT_EQ(joined.results[0].steps, 12);
    EXPECT_EQ(joined.results[0].samples, whole.results[0].samples);
    for (size_t r = 1; r < joined.weights.size(); ++r) EXPECT_EQ(joined.weights[r], joined.weights[0]);
    if (scheme != "dsgd" && scheme != "zero1" && scheme != "pssgd") continue;
    // Adam divides by the root of its second moment: rounding may grow by 1 / epsilon where gradients are nothing, but
    // never beyond 2 learning rates a step; the losses agree.
    EXPECT_NEAR(joined.results[0].curve[2].loss, whole.results[0].curve[2].loss, 1e-4);
    EXPECT_NEAR(joined.results[0].curve[1].loss, whole.results[0].curve[1].loss, 1e-4);
  }
}

INSTANTIATE_TEST_SUITE_P(Schemes, OtherRanks,
                         testing::Values(SchemeCase{"dsgd"}, SchemeCase{"zero1"}, SchemeCase{"pssgd"},
                                         SchemeCase{"sparcml", {{"density", 0.5}}}, SchemeCase{"mavg"},
                                         SchemeCase{"easgd"}, SchemeCase{"asgd"}));

// With another batch of all ranks the rest of the epoch is divided anew: no sample twice, none left out but fewer than
// there are ranks.
TEST(RankCheckpoints, AnotherBatchTakesTheRestOfTheEpoch) {
  const Folder folder("rest");
  const std::string file = folder.file("a.d5c");
  TrainingSettings settings = saved_every(2, file);
  settings.batch = 16;  // of all ranks: 2 ranks with 8
  settings.stop.epochs = 1;
  expect_broken_off(settings, {.ranks = 2}, {0, TrainingEvent::optimizer_step, 3});  // 32 of 104 samples are taken
  settings.batch = 24;                                                               // 3 ranks with 8
  settings.checkpoint.file = folder.file("b.d5c");
  settings.checkpoint.from = file;
  const Trained joined = train(settings, {.ranks = 3});
  EXPECT_EQ(joined.results[0].samples, 104);
  EXPECT_EQ(joined.results[0].steps, 2 + 3);  // 24, 24, 24
  EXPECT_EQ(joined.results[0].curve[0].epoch, 1);
}

}  // namespace
}  // namespace d5
