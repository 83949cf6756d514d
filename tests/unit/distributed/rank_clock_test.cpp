// SPDX-License-Identifier: Apache-2.0
// Clocks that were set wrong and run at other speeds: what happened at one moment is said to have happened at one.
#include "d5/distributed/rank_clock.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "d5/distributed/communicators/threads.hpp"
#include "d5/measure/clock.hpp"

namespace d5 {
namespace {

TEST(ClockLine, goes_through_both_readings_and_knows_its_width) {
  const ClockLine line({.at_s = 100, .offset_s = 1e-3, .uncertainty_s = 2e-5},
                       {.at_s = 200, .offset_s = 3e-3, .uncertainty_s = 1e-5});
  EXPECT_NEAR(line.to_rank_0(100), 100.001, 1e-9);
  EXPECT_NEAR(line.to_rank_0(150), 150.002, 1e-9);
  EXPECT_NEAR(line.to_rank_0(200), 200.003, 1e-9);
  EXPECT_NEAR(line.drift(), 2e-5, 1e-15);
  EXPECT_EQ(line.uncertainty_s(), 2e-5);
  const ClockReading once{.at_s = 5, .offset_s = 7, .uncertainty_s = 1};
  EXPECT_EQ(ClockLine(once, once).to_rank_0(6), 13);
  EXPECT_EQ(ClockLine(once, once).drift(), 0);
}

// Rank r runs r hundredths too fast and was set 1000 r s ahead. Between two readings all see the same moment, which is
// set down by each one's clock; without the drift rank 2 would be 2 ms off at the middle of 0.2 s, and by its offset
// alone 2000 s.
TEST(RankClock, clocks_that_drift_are_brought_together) {
  constexpr int ranks = 3;
  const double origin = now_seconds();
  std::vector<double> errors(ranks), widths(ranks);
  nlohmann::json described;
  run_ranks({.ranks = ranks}, [&](Communicator& c) {
    const auto shows = [&, r = c.rank()](double true_s) { return 1000 * r + (1 + 0.01 * r) * (true_s - origin); };
    RankClock clock(c, [&] { return shows(now_seconds()); });
    const double moment = now_seconds() + 0.1;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    clock.read();
    const auto rank = static_cast<size_t>(c.rank());
    errors[rank] = std::abs(clock.to_rank_0(shows(moment)) - (moment - origin));
    const nlohmann::json all = clock.describe();
    widths[rank] = std::max(all["ranks"][rank]["begin"]["uncertainty_s"].get<double>(),
                            all["ranks"][rank]["end"]["uncertainty_s"].get<double>());
    if (c.rank() == 0) described = all;
  });
  EXPECT_EQ(described["shared"], false);
  for (size_t rank = 0; rank < ranks; ++rank) {
    EXPECT_LE(errors[rank], widths[rank] + 1e-9) << rank;
    if (rank == 0) continue;
    EXPECT_LT(widths[rank], 1e-3 * static_cast<double>(rank)) << rank;  // else the drift would not have been needed
    // Rank 0's seconds a second of this clock, less one: 1 / (1 + 0.01 r) - 1, within what the readings can tell.
    const double drift = 1 / (1 + 0.01 * static_cast<double>(rank)) - 1;
    EXPECT_NEAR(described["ranks"][rank]["drift"].get<double>(), drift, 2 * widths[rank] / 0.2) << rank;
    EXPECT_NEAR(described["ranks"][rank]["begin"]["offset_s"].get<double>(), -1000.0 * static_cast<double>(rank), 0.1);
  }
}

TEST(RankClock, ranks_of_one_kernel_share_theirs) {
  run_ranks({.ranks = 2}, [&](Communicator& c) {
    RankClock clock(c);
    clock.read();
    EXPECT_EQ(clock.to_rank_0(123.25), 123.25);
    EXPECT_EQ(clock.describe(), (nlohmann::json{{"shared", true}}));
  });
}

}  // namespace
}  // namespace d5
