// SPDX-License-Identifier: Apache-2.0
#include "d5/measure/storage.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "d5/core/error.hpp"

namespace d5 {
namespace {

using testing::ElementsAre;

class Storage : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) /
              ("d5-storage-" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    std::filesystem::create_directories(folder_ / "deep");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string write(const std::string& name, size_t bytes) {
    const std::string path = (folder_ / name).string();
    std::ofstream(path, std::ios::binary) << std::string(bytes, 'x');
    return path;
  }
  std::filesystem::path folder_;
};

TEST_F(Storage, FindsFilesAndTheirBytes) {
  const std::string a = write("a", 10), b = write("deep/b", 20);
  EXPECT_THAT(files_of(folder_.string()), ElementsAre(a, b));
  EXPECT_THAT(files_of(a), ElementsAre(a));
  EXPECT_TRUE(files_of((folder_ / "nothing").string()).empty());
  EXPECT_EQ(bytes_of({a, b}), 30);
}

TEST_F(Storage, ReadsEveryBlockOnce) {
  const std::string file = write("large", 4 << 20), small = write("small", 100);
  const auto before = read_counters();
  if (!before) GTEST_SKIP() << "the kernel does not tell what was read";
  random_read_rate({small, file}, 4096, 2, 600, 1);
  EXPECT_NEAR(read_counters()->asked_bytes - before->asked_bytes, (4 << 20) + 100, 4000);  // the counters are read, too
}

TEST_F(Storage, ReadsAtSomeRate) {
  const std::string file = write("large", 4 << 20), small = write("small", 100), empty = write("empty", 0);
  for (const int threads : {1, 2}) {
    EXPECT_GT(sequential_read_rate({file}, threads, 1), 1e6);
    EXPECT_GT(sequential_read_rate({file, small, empty}, threads, 1), 1e5);
    EXPECT_GT(random_read_rate({file}, 4096, threads, 0.01, 1), 1e5);
    EXPECT_GT(random_read_rate({small, file}, 4096, threads, 0.01, 1), 1e3);
    EXPECT_GT(mapped_read_rate({small, file}, 4096, true, threads, 0.01, 1), 1e6);
    EXPECT_GT(mapped_read_rate({small}, 4096, false, threads, 0.01, 1), 1e6);  // a block of the whole file
  }
  EXPECT_EQ(sequential_read_rate({}, 1, 1), 0);
  EXPECT_EQ(random_read_rate({empty}, 10, 1, 0.01, 1), 0);
  EXPECT_EQ(mapped_read_rate({empty}, 10, true, 1, 0.01, 1), 0);
  EXPECT_EQ(mapped_read_rate({}, 10, true, 1, 0.01, 1), 0);
  EXPECT_THROW(random_read_rate({file}, 0, 1, 0.01, 1), Error);
  EXPECT_THROW(sequential_read_rate({(folder_ / "nothing").string()}, 1, 1), Error);
}

TEST_F(Storage, KnowsWhatIsCached) {
  const std::string file = write("cached", 1 << 20);
  fill_page_cache({file});
  EXPECT_GT(cached_share({file}), 0.99);
  empty_page_cache({file});
  EXPECT_LE(cached_share({file}), 1.0);  // a file system in memory keeps its pages
  EXPECT_EQ(cached_share({write("empty", 0)}), 0);
}

// As containers do: a mapped file whose pages were read.
TEST_F(Storage, MappedFilesLeaveTheCacheToo) {
  constexpr int64_t bytes = 1 << 20;
  const std::string file = write("mapped", bytes);
  empty_page_cache({file});
  if (cached_share({file}) > 0.05) GTEST_SKIP() << "this file system keeps its pages";
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(descriptor, 0);
  auto* const mapped = static_cast<const volatile char*>(::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, descriptor, 0));
  ::close(descriptor);
  int64_t sum = 0, again = 0;
  for (int64_t i = 0; i < bytes; ++i) sum += mapped[i];
  EXPECT_GT(cached_share({file}), 0.99);
  empty_page_cache({file});
  EXPECT_LT(cached_share({file}), 0.05);
  for (int64_t i = 0; i < bytes; ++i) again += mapped[i];  // the mapping is as it was
  EXPECT_EQ(again, sum);
  ::munmap(const_cast<char*>(mapped), bytes);
}

TEST_F(Storage, CountsWhatThisProcessReads) {
  const std::string file = write("counted", 1 << 20);
  const auto before = read_counters();
  if (!before) GTEST_SKIP() << "the kernel does not tell";
  fill_page_cache({file});
  EXPECT_GE(read_counters()->asked_bytes - before->asked_bytes, 1 << 20);
}

TEST_F(Storage, WritesAndLeavesNothingBehind) {
  const SmallFileRates rates = small_file_rates(folder_.string(), 20, 100);
  for (const double rate : {rates.created, rates.looked_up, rates.read, rates.removed}) EXPECT_GT(rate, 1);
  EXPECT_GT(checkpoint_write_rate(folder_.string(), 5 << 20), 1e3);
  const std::string file = write("staged", 100000);
  EXPECT_GT(staging_rate({file}, (folder_ / "deep").string()), 1e3);
  EXPECT_EQ(staging_rate({}, folder_.string()), 0);
  EXPECT_THAT(files_of(folder_.string()), ElementsAre(file));
  EXPECT_THROW(checkpoint_write_rate((folder_ / "nothing").string(), 10), Error);
  EXPECT_THROW(checkpoint_write_rate(folder_.string(), 0), Error);
  EXPECT_THROW(small_file_rates(folder_.string(), 0, 10), Error);
}

}  // namespace
}  // namespace d5
