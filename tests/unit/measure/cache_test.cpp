// SPDX-License-Identifier: Apache-2.0
#include "d5/measure/cache.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "d5/core/parallel.hpp"
#include "d5/measure/clock.hpp"
#include "d5/measure/kernel_files.hpp"

namespace d5 {
namespace {

TEST(KernelFiles, SizesAndLists) {
  EXPECT_EQ(parse_size("32K"), 32768);
  EXPECT_EQ(parse_size("24672040 kB"), 24672040LL * 1024);
  EXPECT_EQ(parse_size("2M"), 2 << 20);
  EXPECT_EQ(parse_size("512"), 512);
  EXPECT_EQ(parse_size(""), 0);
  EXPECT_EQ(parse_size("max"), 0);
  EXPECT_EQ(count_cpus("0-3,8"), 5);
  EXPECT_EQ(count_cpus("7"), 1);
  EXPECT_EQ(count_cpus(""), 0);
}

TEST(Cache, LevelsAgreeWithTheCLibrary) {
  const auto levels = cache_levels();
  const long first_data = sysconf(_SC_LEVEL1_DCACHE_SIZE);
  if (levels.empty() || first_data <= 0) GTEST_SKIP() << "this machine does not describe its caches";
  const auto l1 = std::find_if(levels.begin(), levels.end(), [](auto& c) { return c.level == 1 && c.type == "data"; });
  ASSERT_NE(l1, levels.end());
  EXPECT_EQ(l1->bytes, first_data);
}

TEST(Cache, LastLevelGrowsWithThreadsAndIsTheLargest) {
  for (const CacheLevel& c : cache_levels()) EXPECT_GE(last_level_bytes(1), c.bytes) << c.level;
  EXPECT_GE(last_level_bytes(1000), last_level_bytes(1));
}

// A chase through 16 KiB in random order: hot it takes a few cycles per step, cold a walk to memory.
TEST(Cache, FlushedDataIsSlowToReach) {
  constexpr size_t lines = 256, stride = 16;
  std::vector<int> order(lines), next(lines * stride);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(7));
  for (size_t i = 0; i < lines; ++i)
    next[static_cast<size_t>(order[i]) * stride] = order[(i + 1) % lines] * static_cast<int>(stride);
  const auto chase = [&] {
    const double start = now_seconds();
    volatile int at = 0;
    for (size_t i = 0; i < lines; ++i) at = next[static_cast<size_t>(at)];
    return now_seconds() - start;
  };
  CacheFlusher flusher;
  EXPECT_GT(flusher.bytes(), last_level_bytes(threads()));
  double hot = 1, cold = 1;
  for (int i = 0; i < 5; ++i) {
    flusher.flush();
    cold = std::min(cold, chase());
    for (int j = 0; j < 5; ++j) hot = std::min(hot, chase());
  }
  EXPECT_GT(cold, 2 * hot);
}

}  // namespace
}  // namespace d5
