// SPDX-License-Identifier: Apache-2.0
#include "d5/measure/roofline_cache.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>

#include "d5/measure/kernel_files.hpp"

namespace d5 {
namespace {

namespace fs = std::filesystem;

class RooflineCache : public testing::Test {
 protected:
  RooflineCache() : folder_(fs::temp_directory_path() / ("d5-roofline-" + std::to_string(getpid()))) {
    if (const char* before = std::getenv("XDG_CACHE_HOME")) before_ = before;
    setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
    roofline_.peak_flops = {{"f32", 123456789.25}};
    roofline_.bandwidth = {{16384, 3e9}, {32768, 1.0 / 3}};
    roofline_.threads = 2;
  }
  ~RooflineCache() override {
    before_.empty() ? unsetenv("XDG_CACHE_HOME") : setenv("XDG_CACHE_HOME", before_.c_str(), 1);
    fs::remove_all(folder_);
  }
  fs::path folder_;
  std::string before_;
  Roofline roofline_;
};

TEST_F(RooflineCache, KeepsEveryDigitAndLeavesNothingBeside) {
  const fs::path path = roofline_file("a key");
  EXPECT_EQ(path.parent_path(), folder_ / "d5");
  ASSERT_TRUE(store_roofline(path, "a key", roofline_, false));
  const auto again = load_roofline(path, "a key");
  ASSERT_TRUE(again);
  EXPECT_EQ(again->peak_flops, roofline_.peak_flops);
  EXPECT_EQ(again->bandwidth, roofline_.bandwidth);
  EXPECT_EQ(again->threads, 2);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "d5"), {}), 1);
}

TEST_F(RooflineCache, AnotherMachinesFileIsNotUsed) {
  const fs::path path = roofline_file("a key");
  ASSERT_TRUE(store_roofline(path, "a key", roofline_, false));
  EXPECT_FALSE(load_roofline(path, "another key"));
  EXPECT_FALSE(load_roofline(folder_ / "nothing.json", "a key"));
  EXPECT_NE(roofline_key(1), roofline_key(2));
}

TEST_F(RooflineCache, OneOfSharedCoresIsBelievedForTenMinutes) {
  const fs::path path = roofline_file("a key");
  ASSERT_TRUE(store_roofline(path, "a key", roofline_, true));
  EXPECT_TRUE(load_roofline(path, "a key"));
  fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::minutes(11));
  EXPECT_FALSE(load_roofline(path, "a key"));
  ASSERT_TRUE(store_roofline(path, "a key", roofline_, false));
  fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::minutes(11));
  EXPECT_TRUE(load_roofline(path, "a key"));
}

TEST_F(RooflineCache, BrokenFilesAreMeasuredAnew) {
  const std::string key = roofline_key(1);
  const fs::path path = roofline_file(key);
  ASSERT_TRUE(store_roofline(path, key, roofline_, false));
  const std::string whole = read_whole(path);
  for (const std::string& broken : {std::string(), std::string("not json"), std::string("[1, 2]"), std::string("{}"),
                                    std::string("{\"schema\":7,\"key\":[],\"roofline\":0}"), whole.substr(0, 60)}) {
    std::ofstream(path) << broken;
    EXPECT_FALSE(load_roofline(path, key)) << broken;
  }
  const Roofline measured = cached_roofline(1);
  const auto kept = load_roofline(path, key);
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->peak_flops, measured.peak_flops);
  EXPECT_EQ(cached_roofline(1).peak_flops, measured.peak_flops);
}

TEST_F(RooflineCache, WhereNothingCanBeWrittenNothingIsKept) {
  fs::create_directories(folder_);
  std::ofstream(folder_ / "d5") << "a file where the folder should be";
  EXPECT_FALSE(store_roofline(roofline_file("a key"), "a key", roofline_, false));
}

}  // namespace
}  // namespace d5
