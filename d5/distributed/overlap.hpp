// SPDX-License-Identifier: Apache-2.0
// How much of its communication a training hides behind its backward pass. Now and then a step is taken without
// overlap: the same reductions, of the same bits, begin when backward has ended and everyone is there. Such steps give
//   C   communication: from the first reduction's begin to the last one's end, nothing else going on
//   B   backward from the first gradient on: the time in which communication could go on
// and all others
//   E   exposed: what the step waits for reductions after backward has ended
//   B'  backward from the first gradient on, with communication beside it
//   hidden share = (C - E) / min(C, B)        what it costs: B' - B
// Medians over steps, of which the first are not looked at; means over ranks.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace d5 {

// The median of the last values, without memory of its own to ask for.
class LastValues {
 public:
  void add(double value) { values_[count_++ % values_.size()] = value; }
  bool empty() const { return count_ == 0; }
  void clear() { count_ = 0; }
  double median() const;  // 0 where there is none

 private:
  std::array<double, 128> values_{};
  size_t count_ = 0;
};

class Overlap {
 public:
  void restart();                              // steps from here on are of another kind
  void begin_step(bool may_be_alone);          // all ranks count steps alike
  bool is_alone() const { return is_alone_; }  // this step does not overlap
  void gradient_ready();                       // from within backward, any thread
  void backward_ended();
  void communicated(double seconds) { communication_.add(seconds); }  // in a step that is alone
  void waited(double seconds) { waited_ += seconds; }                 // in the others
  void end_step();
  double step_seconds() const { return step_; }  // from the first gradient to the end of the last step

  struct Times {
    double communication = 0, exposed = 0, backward = 0, backward_beside = 0;
    double could_be_hidden() const;
    double hidden_share() const;  // from 0 to 1; 0 where nothing could be hidden
  };
  Times times() const;

 private:
  int64_t steps_ = 0;
  bool is_alone_ = false;
  std::atomic<double> first_gradient_{0};
  double backward_end_ = 0, waited_ = 0, step_ = 0;
  LastValues communication_, exposed_, backward_, backward_beside_;
};

}  // namespace d5
