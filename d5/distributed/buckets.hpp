// SPDX-License-Identifier: Apache-2.0
// Contiguous ranges of the gradient arena, and which of them are complete. Parameters lie in the order in which
// backward makes their gradients, so ranges become complete one after the other; they begin in the order of the arena
// on every rank, whatever the order in which gradients came.
#pragma once

#include <exception>
#include <mutex>
#include <utility>
#include <vector>

#include "d5/backends/backend.hpp"

namespace d5 {

class Buckets {
 public:
  using Range = ParameterSet::Range;

  Buckets(const ParameterSet&, std::vector<Range>);  // they cover the arena, in order
  // Whole parameters, at least so many bytes each; the last ones, for which a step waits, at least an eighth, a quarter
  // and half of that. Fewer than 200, so that requests never wait for a place.
  static std::vector<Range> of_size(const ParameterSet&, double bytes);

  const std::vector<Range>& ranges() const { return ranges_; }

  void begin_step();
  // Calls begin(number) for each bucket whose turn it is. From any thread; what begin throws comes out of finish().
  template <class F>
  void ready(const Gradient& gradient, const F& begin) {
    const std::scoped_lock lock(mutex_);
    mark(gradient);
    while (!error_ && next_ < ranges_.size() && missing_[next_] == 0) begin_next(begin);
  }
  // Begins the others, too: of parameters that nobody told about.
  template <class F>
  void finish(const F& begin) {
    const std::scoped_lock lock(mutex_);
    while (!error_ && next_ < ranges_.size()) begin_next(begin);
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void mark(const Gradient&);
  template <class F>
  void begin_next(const F& begin) {
    try {
      begin(next_++);
    } catch (...) {
      error_ = std::current_exception();
    }
  }

  std::vector<Range> ranges_;
  std::vector<Index> offsets_;             // of parameters
  std::vector<size_t> first_, last_;       // of parameters: the buckets that they lie in
  std::vector<int> parameters_, missing_;  // of buckets: trainable parameters; those without a gradient yet
  std::vector<char> is_ready_;             // of parameters
  size_t next_ = 0;
  std::mutex mutex_;
  std::exception_ptr error_;
};

}  // namespace d5
