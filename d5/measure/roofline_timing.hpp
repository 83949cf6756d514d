// SPDX-License-Identifier: Apache-2.0
// Rates of the roofline's loops on several threads at once; what measure_roofline and Probe share.
#pragma once

#include <memory>
#include <vector>

#include "d5/core/memory.hpp"
#include "d5/measure/roofline_kernels.hpp"

namespace d5 {

// Sets the process's number of threads for as long as it lives.
class ThreadsFor {
 public:
  explicit ThreadsFor(int n);
  ~ThreadsFor();
  ThreadsFor(const ThreadsFor&) = delete;
  ThreadsFor& operator=(const ThreadsFor&) = delete;

 private:
  int before_;
};

// Iterations of one thread that take about `seconds`.
int64_t iterations_for(const PeakKernel&, double seconds);
// Operations per second of all threads together, once.
double peak_rate(const PeakKernel&, int threads, int64_t iterations);

// Memory of each thread, first touched by it.
class StreamBuffers {
 public:
  StreamBuffers(int threads, double working_set_bytes);
  double working_set_bytes() const { return working_set_bytes_; }

  // Bytes per second of `passes` walks over a working set that all threads share out; at most the one allocated.
  double rate(const StreamKernel&, double working_set_bytes, int64_t passes);
  // The same over a window of it that moves on with every call: a sample of a set too large to be walked.
  double window_rate(const StreamKernel&, double working_set_bytes, double window_bytes);

 private:
  double rate(const StreamKernel&, double working_set_bytes, int64_t passes, int64_t first, int64_t floats);
  int64_t floats_per_array(const StreamKernel&, double working_set_bytes) const;

  int threads_;
  double working_set_bytes_;
  int64_t position_ = 0;
  std::vector<std::unique_ptr<Buffer>> buffers_;
};

}  // namespace d5
