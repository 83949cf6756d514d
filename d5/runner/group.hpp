// SPDX-License-Identifier: Apache-2.0
// One group of compared cases, from the first launch to its results. A launch: every child started afresh, every case
// prepared (and checked), then rounds of slices in random order, one child running at a time, then checked again.
#pragma once

#include "d5/measure/clock.hpp"
#include "d5/measure/stopping.hpp"
#include "d5/runner/pool.hpp"

namespace d5 {

struct Interrupted {};  // thrown between slices: the group is abandoned

// What a group gets from the run it belongs to.
struct GroupPlan {
  int launches = 6;     // until the first look
  int comparisons = 0;  // in the whole table
  size_t index = 0;     // of the group in the run
  double origin = 0;    // the clock when the run began: start times count from here
  TimerCalibration timer;
};

class Group {
 public:
  using Tell = std::function<void(const std::string& text, int launches_done, int launches_planned)>;
  Group(const std::vector<Json>& cases, const GroupPlan&, const RunOptions&, ChildPool&,
        const std::atomic<bool>& interrupted, Tell tell);

  std::vector<CaseResult> run();  // in the order of the cases; throws only Interrupted

 private:
  struct Member {
    CaseResult result;
    std::string key;                     // of its child
    int id = 0;                          // of its session in that child
    bool alive = true;                   // still to be measured
    bool open = false;                   // prepared in the child that is there now
    std::unique_ptr<StoppingRule> rule;  // made when its slices are known
    int prepared_launch = -1;
    Slice slice;
    double memory_bytes = 0;  // what one child needed at most
  };

  void skip_what_does_not_fit();
  void check_only();
  bool runs_once() const;
  void tell_running(const Json& progress);
  void measure();
  void launch(int number);
  bool launch_together(const std::vector<Member*>& members,
                       int number);  // false: they do not fit, nothing was measured
  bool next_fits(const Member& prepared);
  void ensure_open(Member&, int number);
  void take_slice(Member&, int number, int round);
  void finish(Member&);
  template <class Act>
  void guarded(Member&, Act act);
  void judge(Member&, const Outcome&);
  void drop(Member&, const std::string& status, const std::string& reason);
  void forget_child(const std::string& key);
  void calibrate(Member&, const Json& details);
  void check_idle(Member&, double seconds);
  std::vector<Member*> alive();
  std::string why_stop(int launches_done, double seconds);  // empty: go on

  const GroupPlan plan_;
  const RunOptions& options_;
  ChildPool& pool_;
  const std::atomic<bool>& interrupted_;
  Tell tell_;
  std::string title_;
  std::vector<Member> members_;
  bool interleaved_ = true;
};

uint64_t stable_hash(const std::string& text);  // FNV-1a, the same on every machine

}  // namespace d5
