// SPDX-License-Identifier: Apache-2.0
#include "d5/core/parallel.hpp"

#include <gmock/gmock.h>
#include <sched.h>

#include <atomic>
#include <map>
#include <mutex>
#include <set>

#include "d5/core/error.hpp"

namespace d5 {
namespace {

using testing::ElementsAre;
using testing::IsSupersetOf;
using testing::Pair;
using testing::ThrowsMessage;

class Parallel : public testing::Test {
 protected:
  void TearDown() override { set_threads(1); }
};

TEST_F(Parallel, ThreadsAreSetOnceForAll) {
  set_threads(3);
  EXPECT_EQ(threads(), 3);
  EXPECT_THAT([] { set_threads(0); }, ThrowsMessage<Error>("[threads] 0 threads are asked for; at least 1 is needed"));
  EXPECT_THROW(set_threads(-2), Error);
  EXPECT_EQ(threads(), 3);
}

TEST_F(Parallel, CoversEveryIndexOnce) {
  for (const int n : {1, 2, 3, 7})
    for (const int64_t count : {0, 1, 2, 3, 10, 999, 1000, 1001})
      for (const int64_t grain : {1, 7, 500, 5000}) {
        set_threads(n);
        std::vector<std::atomic<int>> visits(static_cast<size_t>(count));
        std::atomic<int> ranges = 0;
        std::atomic<bool> short_range = false;
        parallel_for(count, grain, [&](int64_t first, int64_t last) {
          ++ranges;
          if (last - first < grain && last - first < count) short_range = true;
          for (int64_t i = first; i < last; ++i) ++visits.at(static_cast<size_t>(i));
        });
        EXPECT_FALSE(short_range) << n << " " << count << " " << grain;
        EXPECT_LE(ranges, n);
        for (const auto& v : visits) ASSERT_EQ(v, 1) << n << " " << count << " " << grain;
      }
}

TEST_F(Parallel, UsesTheThreadsItIsGiven) {
  set_threads(3);
  std::atomic<int> ranges = 0;
  parallel_for(300, 100, [&](int64_t, int64_t) { ++ranges; });
  EXPECT_EQ(ranges, 3);
}

TEST_F(Parallel, ForwardsAnExceptionAfterAllBodiesEnded) {
  for (const int n : {1, 3}) {
    set_threads(n);
    std::atomic<int> ended = 0;
    EXPECT_THAT(
        [&] {
          parallel_for(3, 1, [&](int64_t first, int64_t last) {
            ended += static_cast<int>(last - first);
            if (first == 0) throw Error("[body] failed");
          });
        },
        ThrowsMessage<Error>("[body] failed"));
    EXPECT_EQ(ended, 3);
  }
}

TEST_F(Parallel, ALoopWithinALoopIsWhole) {
  set_threads(2);
  std::vector<std::atomic<int>> visits(100);
  parallel_for(10, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i)
      parallel_for(10, 1, [&](int64_t from, int64_t to) {
        for (int64_t j = from; j < to; ++j) ++visits[static_cast<size_t>(10 * i + j)];
      });
  });
  for (const auto& v : visits) EXPECT_EQ(v, 1);
}

class Mask {  // restored at the end: later tests want all cores again
 public:
  Mask() { sched_getaffinity(0, sizeof(old_), &old_); }
  ~Mask() { sched_setaffinity(0, sizeof(old_), &old_); }
  std::vector<int> cores() const {
    std::vector<int> all;
    for (int i = 0; i < CPU_SETSIZE; ++i)
      if (CPU_ISSET(i, &old_)) all.push_back(i);
    return all;
  }

 private:
  cpu_set_t old_;
};

TEST_F(Parallel, UsableCoresAreThoseOfTheMask) {
  const Mask mask;
  EXPECT_GE(usable_cores(), 1);
  EXPECT_LE(usable_cores(), static_cast<int>(mask.cores().size()));
  const int last = mask.cores().back();
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(last, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(usable_cores(), 1);
  EXPECT_THAT(cores_for(1), ElementsAre(last));
  EXPECT_THAT(cores_for(4), ElementsAre(last));
}

TEST_F(Parallel, CoresForAChildAreDistinctAndTheLastComesFirst) {
  const std::vector<int> usable = Mask().cores();
  const auto all = cores_for(1 << 20);
  EXPECT_THAT(all, testing::UnorderedElementsAreArray(usable));
  EXPECT_EQ(all.front(), usable.back());
  EXPECT_THAT(cores_for(1), ElementsAre(usable.back()));
  EXPECT_THROW(cores_for(0), Error);
}

TEST_F(Parallel, TheEnvironmentNamesEveryRuntime) {
  const auto environment = thread_environment(5);
  EXPECT_THAT(environment, IsSupersetOf({Pair("OMP_NUM_THREADS", "5"), Pair("OPENBLAS_NUM_THREADS", "5"),
                                         Pair("MKL_NUM_THREADS", "5"), Pair("BLIS_NUM_THREADS", "5"),
                                         Pair("OMP_DYNAMIC", "false")}));
  std::set<std::string> names;
  for (const auto& [name, value] : environment) EXPECT_TRUE(names.insert(name).second) << name;
  EXPECT_THROW(thread_environment(0), Error);
}

}  // namespace
}  // namespace d5
