// SPDX-License-Identifier: Apache-2.0
#include "d5/training/checkpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>

namespace d5 {
namespace {

using testing::HasSubstr;

class CheckpointTest : public testing::Test {
 protected:
  CheckpointTest() {
    folder_ =
        std::filesystem::temp_directory_path() /
        fmt::format("d5-checkpoint-{}-{}", getpid(), testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
    file_ = folder_ / "a.d5c";
  }
  ~CheckpointTest() override { std::filesystem::remove_all(folder_); }

  static NamedTensors tensors(float first) {
    return {{"w", Tensor::from<float>({2, 3}, {first, 1, 2, 3, 4, 5})},
            {"steps", Tensor::from<double>({1}, {7.5})},
            {"empty", Tensor(DType::f32, {0})}};
  }
  std::string failure() const {
    try {
      read_checkpoint(file_);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  std::string contents() const {
    std::ifstream in(file_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void put(const std::string& bytes) const { std::ofstream(file_, std::ios::binary) << bytes; }

  std::filesystem::path folder_;
  std::string file_;
};

TEST_F(CheckpointTest, GivesBackWhatWasWritten) {
  write_checkpoint(file_, R"({"step":3})", tensors(0.25f));
  const Checkpoint read = read_checkpoint(file_);
  EXPECT_EQ(read.about, R"({"step":3})");
  ASSERT_EQ(read.tensors.size(), 3u);
  EXPECT_EQ(read.at("w").shape(), (Shape{2, 3}));
  EXPECT_EQ(read.at("w").values<float>()[0], 0.25f);
  EXPECT_EQ(read.at("steps").values<double>()[0], 7.5);
  EXPECT_THROW(read.at("v"), Error);
}

TEST_F(CheckpointTest, EveryDamagedByteIsFound) {
  write_checkpoint(file_, R"({"step":3})", tensors(0));
  const std::string good = contents();
  size_t unseen = 0;
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x40);
    put(bad);
    if (failure().empty()) {
      EXPECT_EQ(good[i], '\0') << "byte " << i;  // only padding may change unseen
      ++unseen;
    }
  }
  EXPECT_LT(unseen, 256u);
}

TEST_F(CheckpointTest, SaysWhatIsWrong) {
  write_checkpoint(file_, "{}", tensors(0));
  const std::string good = contents();
  put(good.substr(0, good.size() - 4));
  EXPECT_THAT(failure(), HasSubstr("is cut short"));
  std::string bad = good;
  bad[bad.size() - 64] = 1;  // the last section is empty: this is the first byte of the one before
  put(bad);
  EXPECT_THAT(failure(), HasSubstr("is damaged: steps has CRC-32C"));
  put("not a checkpoint at all, but long enough to be one");
  EXPECT_THAT(failure(), HasSubstr("is no checkpoint of d5"));
  put("");
  EXPECT_THAT(failure(), HasSubstr("cut short"));
}

// A limit on the size of files acts as a full disk does: write() fails half way.
TEST_F(CheckpointTest, TheLastGoodOneSurvivesAFullDisk) {
  write_checkpoint(file_, R"({"step":1})", tensors(1));
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  rlimit small = old;
  small.rlim_cur = 4096;
  setrlimit(RLIMIT_FSIZE, &small);
  std::string message;
  try {
    write_checkpoint(file_, R"({"step":2})", {{"w", Tensor::from<float>({4096}, std::vector<float>(4096, 2.0f))}});
  } catch (const Error& error) {
    message = error.what();
  }
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, before);
  EXPECT_THAT(message, HasSubstr("cannot be written"));
  EXPECT_EQ(read_checkpoint(file_).about, R"({"step":1})");
  EXPECT_FALSE(std::filesystem::exists(file_ + ".part"));
}

}  // namespace
}  // namespace d5
