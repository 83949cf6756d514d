// SPDX-License-Identifier: Apache-2.0
#include "d5/training/checkpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "d5/core/rng.hpp"

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

// Columns first, and one padded element behind every column: as blocked layouts have it, of 16-bit elements alone.
class ColumnsFirst final : public Layout {
 public:
  ColumnsFirst(Index rows, Index columns) : rows_(rows), columns_(columns) {}
  size_t bytes() const override { return static_cast<size_t>(columns_ * (rows_ + 1)) * 2; }
  std::string name() const override { return "columns first"; }
  void from_plain(const Tensor& plain, void* native) const override {
    move(plain, [&](size_t p, size_t n) {
      std::memcpy(static_cast<char*>(native) + 2 * n, static_cast<const char*>(plain.data()) + 2 * p, 2);
    });
  }
  void to_plain(const void* native, const Tensor& plain) const override {
    move(plain, [&](size_t p, size_t n) {
      std::memcpy(static_cast<char*>(plain.data()) + 2 * p, static_cast<const char*>(native) + 2 * n, 2);
    });
  }

 private:
  template <class Copy>
  void move(const Tensor& plain, Copy copy) const {
    if (bits(plain.dtype()) != 16) throw Error("[test] this layout is of 16 bits");
    for (Index r = 0; r < rows_; ++r)
      for (Index c = 0; c < columns_; ++c)
        copy(static_cast<size_t>(r * columns_ + c), static_cast<size_t>(c * (rows_ + 1) + r));
  }
  Index rows_, columns_;
};

// Masters in f32 keep all their bits in the layout of a parameter of 16 bits. 70,000 elements have three digits.
TEST(CanonicalParameters, MastersOfBf16InItsLayout) {
  const Index rows = 700, columns = 100;
  for (const DType type : {DType::bf16, DType::f16}) {
    ParameterSet set(type);
    set.add({.name = "w",
             .spec = {type, {rows, columns}},
             .padded_elements = columns * (rows + 1),
             .layout = "columns first",
             .native = std::make_shared<ColumnsFirst>(rows, columns)});
    set.freeze();
    const Tensor value(DType::f32, {rows, columns});
    fill_normal(value, Rng(3), 0, 1);
    set_parameter(set, "w", value);
    const auto native = static_cast<size_t>(5 * (rows + 1) + 7), plain = static_cast<size_t>(7 * columns + 5);
    const auto master = set.master("w").values<float>();
    EXPECT_EQ(master[native], value.values<float>()[plain]);
    EXPECT_EQ(master[static_cast<size_t>(rows)], 0);
    const Tensor rounded = value.cast(type).cast(DType::f32), compute = set.compute("w").cast(DType::f32);
    EXPECT_EQ(compute.values<float>()[native], rounded.values<float>()[plain]);
    const Tensor back = canonical_parameters(set).at(0).second;
    EXPECT_EQ(std::memcmp(back.data(), value.data(), value.bytes()), 0);
  }
}

}  // namespace
}  // namespace d5
