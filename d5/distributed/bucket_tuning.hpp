// SPDX-License-Identifier: Apache-2.0
// The size of buckets by trying: each of a few sizes for some steps, by the time from the first gradient to the end of
// the step. Short ones begin early and cost latency, long ones leave much to wait for at the end.
#pragma once

#include <algorithm>
#include <limits>

#include "d5/distributed/buckets.hpp"
#include "d5/distributed/overlap.hpp"

namespace d5 {

class BucketTuning {
 public:
  // `usual`, and sizes that divide these parameters differently, from the whole down to a 32nd.
  BucketTuning(const ParameterSet& set, double usual) : sizes_{usual} {
    const auto whole = static_cast<double>(storage_bytes(set.compute_dtype(), set.elements()));
    std::vector<size_t> seen{Buckets::of_size(set, usual).size()};
    for (double parts = 1; parts <= 32; parts *= 2) {
      const size_t count = Buckets::of_size(set, whole / parts).size();
      if (std::ranges::find(seen, count) != seen.end()) continue;
      seen.push_back(count);
      sizes_.push_back(whole / parts);
    }
  }
  bool done() const { return sizes_.size() == 1 || next_ == sizes_.size(); }
  double bytes() const { return done() ? (next_ == 0 ? sizes_[0] : best_bytes_) : sizes_[next_]; }

  // A step with this size took so long; true: that is enough of it, and judge() comes next.
  bool add(double seconds) {
    constexpr int steps_each = 6, unsettled = 2;
    if (++steps_ > unsettled) seconds_.add(seconds);
    return steps_ == steps_each;
  }
  double seconds() const { return seconds_.median(); }
  // By the sum over ranks, so that all of them choose the same. Little differences are noise.
  void judge(double seconds_of_all) {
    constexpr double matters = 0.98;
    if (seconds_of_all < matters * best_s_) {
      best_s_ = seconds_of_all;
      best_bytes_ = sizes_[next_];
    }
    ++next_;
    steps_ = 0;
    seconds_.clear();
  }

 private:
  std::vector<double> sizes_;
  size_t next_ = 0;
  int steps_ = 0;
  LastValues seconds_;
  double best_s_ = std::numeric_limits<double>::infinity(), best_bytes_ = 0;
};

}  // namespace d5
