// SPDX-License-Identifier: Apache-2.0
// The clock of a rank beside that of rank 0. Ranks of one kernel share a clock. Else the offset is read by round trips
// when work begins and again when it ends: between the two readings clocks are taken to drift apart evenly.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>

#include "d5/distributed/communicator.hpp"

namespace d5 {

struct ClockReading {
  double at_s = 0;           // by this rank's clock
  double offset_s = 0;       // to be added to it to have rank 0's
  double uncertainty_s = 0;  // half of the shortest round trip
};

// The line through two readings; a constant where they are of one moment.
class ClockLine {
 public:
  ClockLine(const ClockReading& first, const ClockReading& last);
  double to_rank_0(double own_s) const { return own_s + offset_s_ + drift_ * (own_s - at_s_); }
  double drift() const { return drift_; }                  // seconds a second
  double uncertainty_s() const { return uncertainty_s_; }  // between the readings

 private:
  double at_s_, offset_s_, drift_ = 0, uncertainty_s_;
};

class RankClock {
 public:
  using Clock = std::function<double()>;
  // By all ranks at once. Without a clock: now_seconds, which ranks of one kernel share.
  explicit RankClock(Communicator&, Clock = {});
  // By all ranks at once: to be called behind what is timed. Times since the reading before are then brought to rank
  // 0's clock by what the two say.
  void read();
  double to_rank_0(double own_s) const { return ClockLine(before_, last_).to_rank_0(own_s); }
  // By all ranks at once, complete on rank 0: whether they share a clock; else the first and the last reading of each,
  // and its drift between them.
  nlohmann::json describe() const;

 private:
  ClockReading reading() const;
  Communicator& communicator_;
  Clock clock_;
  bool shared_;
  ClockReading first_, before_, last_;
};

}  // namespace d5
