// SPDX-License-Identifier: Apache-2.0
// The stream of requests, messages, windows, splitting, and what happens when a rank is lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <thread>

#include "d5/distributed/communicators/threads.hpp"

namespace d5 {
namespace {

using testing::HasSubstr;

Operation sum_of(std::vector<float>& data) {
  return {.collective = Collective::allreduce,
          .input = data.data(),
          .output = data.data(),
          .count = static_cast<int64_t>(data.size())};
}

TEST(Communicator, requests_end_in_the_order_in_which_they_began) {
  run_ranks({.ranks = 3}, [](Communicator& communicator) {
    std::vector<std::vector<float>> data(600, std::vector<float>(17, static_cast<float>(communicator.rank())));
    std::vector<Request> pending;
    for (auto& one : data) pending.push_back(communicator.start(sum_of(one)));  // more than the queue holds
    pending.back().wait();
    for (size_t i = 0; i < data.size(); ++i) {
      EXPECT_TRUE(pending[i].done());
      EXPECT_EQ(data[i][16], 3.0f);
    }
    std::vector<float> more(5, 1.0f);
    communicator.run(sum_of(more));  // inline again
    EXPECT_EQ(more[0], 3.0f);
    wait_all(pending);
    EXPECT_TRUE(pending.empty());
  });
}

TEST(Communicator, blocking_calls_come_after_what_was_started) {
  run_ranks({.ranks = 4}, [](Communicator& communicator) {
    std::vector<float> data(100'000, 1.0f);
    for (int i = 0; i < 20; ++i) {
      Request first = communicator.start(sum_of(data));
      communicator.run(sum_of(data));
      EXPECT_TRUE(first.done());
      EXPECT_EQ(data.front(), 16.0f);
      EXPECT_EQ(data.back(), 16.0f);
      std::ranges::fill(data, 1.0f);
    }
  });
}

TEST(Communicator, messages_of_one_tag_arrive_in_order) {
  run_ranks({.ranks = 2}, [](Communicator& communicator) {
    const int peer = 1 - communicator.rank();
    std::vector<int> out(50), in(50), other(1, 7), other_in(1);
    std::iota(out.begin(), out.end(), 100 * communicator.rank());
    std::vector<Request> pending;
    pending.push_back(communicator.receive(peer, other_in.data(), sizeof(int), 5));
    for (int& one : in) pending.push_back(communicator.receive(peer, &one, sizeof one));
    for (int& one : out) pending.push_back(communicator.send(peer, &one, sizeof one));
    pending.push_back(communicator.send(peer, other.data(), sizeof(int), 5));
    wait_all(pending);
    for (int i = 0; i < 50; ++i) EXPECT_EQ(in[static_cast<size_t>(i)], 100 * peer + i);
    EXPECT_EQ(other_in[0], 7);
  });
}

TEST(Communicator, neighbours_swap_blocks) {
  run_ranks({.ranks = 5}, [](Communicator& communicator) {
    const int n = communicator.size(), rank = communicator.rank();
    const std::vector<int> neighbours{(rank + 1) % n, (rank + n - 1) % n};
    const std::vector<double> out{rank + 0.5, rank + 0.25};
    std::vector<double> in(2);
    communicator.run({.collective = Collective::neighbour_exchange,
                      .input = out.data(),
                      .output = in.data(),
                      .count = 1,
                      .dtype = DType::f64,
                      .neighbours = neighbours});
    EXPECT_EQ(in[0], (rank + 1) % n + 0.25);
    EXPECT_EQ(in[1], (rank + n - 1) % n + 0.5);
  });
}

TEST(Communicator, windows_are_read_and_written_by_others) {
  run_ranks({.ranks = 3}, [](Communicator& communicator) {
    std::vector<int> mine(4, communicator.rank());
    {
      const auto window = communicator.expose(mine.data(), mine.size() * sizeof(int));
      const int next = (communicator.rank() + 1) % 3, written = 100 + communicator.rank();
      communicator.barrier();
      window->put(next, 2 * sizeof(int), &written, sizeof written);
      window->complete();
      communicator.barrier();
      int read = -1;
      window->get(next, 0, &read, sizeof read);
      window->complete();
      EXPECT_EQ(read, next);
      EXPECT_EQ(mine[2], 100 + (communicator.rank() + 2) % 3);
      EXPECT_THROW(window->put(next, 15, &written, sizeof written), Error);
      communicator.barrier();
    }
  });
}

TEST(Communicator, split_forms_groups_by_colour_in_the_order_of_keys) {
  run_ranks({.ranks = 7}, [](Communicator& communicator) {
    const int rank = communicator.rank();
    auto part = communicator.split(rank == 6 ? -1 : rank % 2, -rank);
    ASSERT_EQ(part.has_value(), rank != 6);
    if (!part) return;
    ASSERT_EQ(part->size(), 3);
    EXPECT_EQ(part->rank(), rank % 2 ? (5 - rank) / 2 : (4 - rank) / 2);
    std::vector<float> data{static_cast<float>(rank)};
    part->run(sum_of(data));
    EXPECT_EQ(data[0], rank % 2 ? 9.0f : 6.0f);
  });
}

TEST(Communicator, a_rank_that_throws_is_lost_to_the_others_and_named) {
  std::atomic<int> named{0};
  try {
    run_ranks({.ranks = 4}, [&](Communicator& communicator) {
      std::vector<float> data(1000, 1.0f);
      communicator.run(sum_of(data));
      if (communicator.rank() == 2) throw std::runtime_error("planted");
      try {
        for (int i = 0; i < 3; ++i) communicator.run(sum_of(data));
        FAIL() << "rank " << communicator.rank() << " noticed nothing";
      } catch (const RankLost& lost) {
        named += lost.rank() == 2;
        throw;
      }
    });
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "planted");  // the cause, not its consequences
  }
  EXPECT_EQ(named, 3);
}

TEST(Communicator, a_hung_rank_is_found_in_time_and_the_stream_stays_broken) {
  const auto begin = std::chrono::steady_clock::now();
  std::atomic<bool> go{false};
  std::atomic<int> named{0};
  EXPECT_THROW(run_ranks({.ranks = 3, .time_limit_s = 0.3},
                         [&](Communicator& communicator) {
                           if (communicator.rank() == 1) {
                             while (!go) std::this_thread::sleep_for(std::chrono::milliseconds(5));
                             return;
                           }
                           std::vector<float> data(10, 1.0f);
                           Request request = communicator.start(sum_of(data));
                           try {
                             request.wait();
                           } catch (const RankLost& lost) {
                             named += lost.rank() == 1;
                             EXPECT_THAT(lost.what(), HasSubstr("rank 1"));
                             EXPECT_THROW(communicator.run(sum_of(data)), RankLost);
                             if (named == 2) go = true;
                             throw;
                           }
                         }),
               RankLost);
  go = true;
  EXPECT_EQ(named, 2);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

// Rank 0 waits for rank 3 of the ring, which waits for rank 2, ...: the hung one is named, not the neighbour.
TEST(Communicator, the_end_of_a_chain_of_waiting_ranks_is_named) {
  std::atomic<bool> go{false};
  std::atomic<int> ended{0}, named{0};
  EXPECT_THROW(run_ranks({.ranks = 4, .time_limit_s = 0.3},
                         [&](Communicator& communicator) {
                           if (communicator.rank() == 1) {
                             while (!go) std::this_thread::sleep_for(std::chrono::milliseconds(5));
                             return;
                           }
                           std::vector<float> data(40, 1.0f);
                           Operation op = sum_of(data);
                           op.algorithm = "ring";
                           try {
                             communicator.run(op);
                           } catch (const RankLost& lost) {
                             named += lost.rank() == 1;
                           }
                           if (++ended == 3) go = true;
                           throw RankLost(1, "ends the run");
                         }),
               RankLost);
  EXPECT_EQ(named, 3);
}

TEST(Communicator, sizes_that_differ_are_an_error_with_both) {
  try {
    run_ranks({.ranks = 2}, [](Communicator& communicator) {
      std::vector<float> data(communicator.rank() == 0 ? 8 : 9);
      communicator.run({.collective = Collective::allreduce,
                        .input = data.data(),
                        .output = data.data(),
                        .count = static_cast<int64_t>(data.size()),
                        .algorithm = "recursive_doubling"});
    });
    FAIL();
  } catch (const RankLost&) {
    FAIL() << "an error of one's own comes before a loss";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("32"));
    EXPECT_THAT(error.what(), HasSubstr("36"));
  }
}

TEST(Communicator, names_and_ranks_that_do_not_exist) {
  EXPECT_THROW(open_communicator("mpy"), UsageError);
  EXPECT_THROW(thread_transports(0), UsageError);
  run_ranks({.ranks = 2}, [](Communicator& communicator) {
    char byte = 0;
    EXPECT_THROW(communicator.send(2, &byte, 1), UsageError);
  });
}

}  // namespace
}  // namespace d5
