// SPDX-License-Identifier: Apache-2.0
// Plans on lives worked out by hand, and random ones against the two properties that any plan has.
#include "d5/graph/memory_plan.hpp"

#include <gmock/gmock.h>

#include "d5/core/memory.hpp"
#include "d5/core/rng.hpp"

namespace d5 {
namespace {

using testing::ElementsAre;

bool lives_at(const BufferLife& life, size_t time) {
  bool lives = life.first <= time && time <= life.last;
  for (const LifeStretch& stretch : life.more) lives |= stretch.first <= time && time <= stretch.last;
  return lives;
}

TEST(MemoryPlan, ChainNeedsTwoNeighbours) {
  // a -> b -> c -> d: each lives from its step to the next.
  const std::vector<BufferLife> lives{{64, 0, 1}, {64, 1, 2}, {64, 2, 3}, {64, 3, 3}};
  const MemoryPlan plan = plan_memory(lives);
  EXPECT_EQ(plan.bytes, 128u);
  EXPECT_EQ(plan.least, 128u);
  EXPECT_THAT(plan.offsets, ElementsAre(0, 64, 0, 64));
}

TEST(MemoryPlan, TheSmallestGapIsTaken) {
  // At step 1 the buffers of 256 and 128 bytes are free again; 100 bytes fit both and take the smaller one.
  const std::vector<BufferLife> lives{{256, 0, 0}, {64, 0, 9}, {128, 0, 0}, {64, 0, 9}, {100, 1, 9}};
  const MemoryPlan plan = plan_memory(lives);
  EXPECT_EQ(plan.bytes, 512u);
  EXPECT_EQ(plan.offsets[4], plan.offsets[2]);
}

TEST(MemoryPlan, NothingNeedsNothing) {
  EXPECT_EQ(plan_memory({}).bytes, 0u);
  const std::vector<BufferLife> empty{{0, 0, 5}};
  EXPECT_EQ(plan_memory(empty).bytes, 0u);
}

TEST(MemoryPlan, BytesAreFreeBetweenTwoLives) {
  const std::vector<BufferLife> lives{{128, 0, 1, {{6, 7}}}, {128, 2, 5}, {128, 1, 1}};
  const MemoryPlan plan = plan_memory(lives);
  EXPECT_EQ(plan.bytes, 256u);
  EXPECT_EQ(plan.least, 256u);
  EXPECT_NE(plan.offsets[0], plan.offsets[2]);
  const std::vector<BufferLife> across{{128, 0, 1, {{6, 7}}}, {128, 2, 6}};
  EXPECT_EQ(plan_memory(across).bytes, 256u);
}

TEST(MemoryPlan, BuffersThatLiveTogetherLieApart) {
  const Rng rng(5, stream_of("lives"));
  uint64_t number = 0;
  const auto draw = [&](uint64_t below) { return static_cast<size_t>(rng.bits(number++) % below); };
  for (int repeat = 0; repeat < 50; ++repeat) {
    std::vector<BufferLife> lives;
    size_t sum = 0;
    for (int i = 0; i < 60; ++i) {
      const size_t first = draw(100);
      lives.push_back({draw(5000), first, first + draw(20)});
      if (draw(4) == 0) lives.back().more.push_back({150 + first, 150 + first + draw(20)});
      sum += lives.back().bytes + alignment_bytes;
    }
    const MemoryPlan plan = plan_memory(lives);
    EXPECT_GE(plan.bytes, plan.least);
    EXPECT_LE(plan.bytes, sum);
    EXPECT_LE(plan.bytes, 2 * plan.least) << "a plan that does not share is no plan";
    for (size_t a = 0; a < lives.size(); ++a) {
      EXPECT_EQ(plan.offsets[a] % alignment_bytes, 0u);
      EXPECT_LE(plan.offsets[a] + lives[a].bytes, plan.bytes);
      for (size_t b = 0; b < a; ++b) {
        bool together = false;
        for (size_t time = 0; time < 300; ++time) together |= lives_at(lives[a], time) && lives_at(lives[b], time);
        const bool apart =
            plan.offsets[a] + lives[a].bytes <= plan.offsets[b] || plan.offsets[b] + lives[b].bytes <= plan.offsets[a];
        EXPECT_TRUE(!together || apart);
      }
    }
  }
}

}  // namespace
}  // namespace d5
