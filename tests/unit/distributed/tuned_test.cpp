// SPDX-License-Identifier: Apache-2.0
// What is the fastest is timed once, kept, and the same on all ranks.
#include "d5/distributed/tuned.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>

#include "d5/core/error.hpp"
#include "d5/distributed/communicators/threads.hpp"

namespace d5 {
namespace {

class Algorithms : public testing::Test {
 protected:
  Algorithms() {
    std::filesystem::remove_all(folder_);
    setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
  }
  ~Algorithms() override {
    unsetenv("XDG_CACHE_HOME");
    std::filesystem::remove_all(folder_);
  }

  // What rank 0 was told, where all ranks chose the same.
  static Tuned tuned(int ranks, const std::vector<int64_t>& sizes, Timing timing = Timing::missing) {
    std::vector<Tuned> all(static_cast<size_t>(ranks));
    run_ranks({.ranks = ranks}, [&](Communicator& c) {
      Tuned mine = choose_tuned(c, Collective::allreduce, DType::f32, sizes, "threads", timing);
      std::vector<float> data(1000, 1.0f);
      const Operation sum{
          .collective = Collective::allreduce, .input = data.data(), .output = data.data(), .count = 1000};
      EXPECT_EQ(c.chosen(sum), mine.choice[0].algorithm);
      c.run(sum);
      EXPECT_EQ(data[999], static_cast<float>(ranks));
      EXPECT_THROW(c.choose(Collective::allreduce, {{0, "rign"}}), UsageError);
      all[static_cast<size_t>(c.rank())] = std::move(mine);
    });
    for (const Tuned& other : all) {
      EXPECT_EQ(other.choice.size(), all[0].choice.size());
      for (size_t i = 0; i < all[0].choice.size(); ++i) {
        EXPECT_EQ(other.choice[i].from_bytes, all[0].choice[i].from_bytes);
        EXPECT_EQ(other.choice[i].algorithm, all[0].choice[i].algorithm);
      }
    }
    return all[0];
  }
  static std::string text_of(const std::string& file) {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
  }

  const std::string folder_ = testing::TempDir() + "d5-algorithms";
};

TEST_F(Algorithms, are_timed_once_for_each_size_and_place) {
  const Tuned first = tuned(3, {1 << 10, 1 << 18});
  EXPECT_EQ(first.timed, 2);
  EXPECT_GT(first.seconds, 0);
  EXPECT_EQ(first.choice[0].from_bytes, 0);
  ASSERT_TRUE(std::filesystem::exists(first.file)) << first.file;
  EXPECT_EQ(tuned(3, {1 << 10, 1 << 18}).timed, 0);
  EXPECT_EQ(tuned(3, {1 << 10, 1 << 14, 1 << 18}).timed, 1);
  EXPECT_EQ(tuned(2, {1 << 10}).timed, 1);  // other ranks are another place
  EXPECT_EQ(tuned(3, {1 << 10}, Timing::all).timed, 1);
}

TEST_F(Algorithms, are_what_the_file_says_and_a_broken_one_says_nothing) {
  const std::string file = tuned(2, {1 << 10}).file;
  std::string text = text_of(file);
  const size_t at = text.find("\"algorithm\": \"") + 14;
  const auto with = [&](const std::string& name) {
    std::string other = text;
    other.replace(at, other.find('"', at) - at, name);
    std::ofstream(file) << other;
    return tuned(2, {1 << 10});
  };
  EXPECT_EQ(with("ring").choice[0].algorithm, "ring");
  EXPECT_EQ(with("tree").choice[0].algorithm, "tree");
  EXPECT_EQ(with("rign").timed, 1);  // of another release
  std::ofstream(file) << "{";
  EXPECT_EQ(tuned(2, {1 << 10}).timed, 1);
}

TEST_F(Algorithms, are_chosen_also_where_nothing_can_be_kept) {
  std::ofstream(folder_) << "no folder";
  const Tuned there = tuned(2, {1 << 10});
  EXPECT_EQ(there.timed, 1);
  EXPECT_EQ(there.file, "");
}

TEST(Sizes, reach_the_first_that_is_not_below_and_no_further_than_16_MiB) {
  EXPECT_EQ(sizes_to_tune(1), (std::vector<int64_t>{1024}));
  EXPECT_EQ(sizes_to_tune(5000), (std::vector<int64_t>{1024, 4096, 16384}));
  EXPECT_EQ(sizes_to_tune(1'000'000'000).back(), 16 << 20);
}

}  // namespace
}  // namespace d5
