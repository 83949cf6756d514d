// SPDX-License-Identifier: Apache-2.0
#include "d5/measure/roofline_timing.hpp"

#include <algorithm>
#include <atomic>
#include <functional>

#include "d5/core/parallel.hpp"
#include "d5/measure/clock.hpp"

namespace d5 {
namespace {

constexpr int64_t granule_floats = 64;  // what the stream loops ask for
// Between arrays: not in the same cache sets, nor almost a power of two apart, where streams through memory hinder each
// other (as kernel_store.cpp saw).
constexpr int64_t gap_floats = 66880 / sizeof(float);

// Seconds from the first start to the last end. The threads wait for each other before they start, because waking one
// can take as long as the work; not for ever, because a busy machine may run them one after the other.
double seconds_together(int threads, const std::function<void(int)>& body) {
  std::vector<double> start(static_cast<size_t>(threads)), end(static_cast<size_t>(threads));
  std::atomic<int> arrived = 0;
  parallel_for(threads, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      ++arrived;
      const double give_up = now_seconds() + 5e-3;
      while (arrived < threads && now_seconds() < give_up) {
      }
      start[static_cast<size_t>(i)] = now_seconds();
      body(static_cast<int>(i));
      end[static_cast<size_t>(i)] = now_seconds();
    }
  });
  return *std::max_element(end.begin(), end.end()) - *std::min_element(start.begin(), start.end());
}

std::atomic<float> keep;  // results go here, so that no loop can be removed

}  // namespace

ThreadsFor::ThreadsFor(int n) : before_(threads()) { set_threads(n); }
ThreadsFor::~ThreadsFor() { set_threads(before_); }

double peak_rate(const PeakKernel& kernel, int threads, int64_t iterations) {
  const double seconds = seconds_together(threads, [&](int) { kernel.run(iterations); });
  return kernel.flops_per_iteration * static_cast<double>(iterations) * threads / std::max(seconds, 1e-9);
}

int64_t iterations_for(const PeakKernel& kernel, double seconds) {
  for (int64_t iterations = 64;; iterations *= 4) {
    // The best of three: a thread that is interrupted would make the loop look slow and the runs too short.
    double rate = 0;
    for (int i = 0; i < 3; ++i) rate = std::max(rate, peak_rate(kernel, 1, iterations));
    const double taken = kernel.flops_per_iteration * static_cast<double>(iterations) / rate;
    if (taken > seconds / 8)
      return std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(iterations) * seconds / taken));
  }
}

StreamBuffers::StreamBuffers(int threads, double working_set_bytes)
    : threads_(threads), working_set_bytes_(working_set_bytes), buffers_(static_cast<size_t>(threads)) {
  const auto floats =
      static_cast<int64_t>(working_set_bytes / threads / sizeof(float)) + 3 * gap_floats + granule_floats;
  seconds_together(threads, [&](int i) {
    auto& buffer = buffers_[static_cast<size_t>(i)];
    buffer = std::make_unique<Buffer>(host_memory(), static_cast<size_t>(floats) * sizeof(float));
    std::fill_n(static_cast<float*>(buffer->data()), floats, 1.0f);
  });
}

int64_t StreamBuffers::floats_per_array(const StreamKernel& kernel, double working_set_bytes) const {
  const double bytes = std::min(working_set_bytes, working_set_bytes_) / (threads_ * kernel.arrays);
  const auto granules = static_cast<int64_t>(bytes / (granule_floats * sizeof(float)));
  return std::max<int64_t>(granules, 1) * granule_floats;
}

double StreamBuffers::rate(const StreamKernel& kernel, double working_set_bytes, int64_t passes, int64_t first,
                           int64_t floats) {
  const int64_t stride = floats_per_array(kernel, working_set_bytes) + gap_floats;
  const double seconds = seconds_together(threads_, [&](int i) {
    float* a = static_cast<float*>(buffers_[static_cast<size_t>(i)]->data()) + first;
    keep = kernel.run(a, a + stride, a + 2 * stride, floats, passes);
  });
  return static_cast<double>(floats * passes * kernel.arrays * threads_) * sizeof(float) / std::max(seconds, 1e-9);
}

double StreamBuffers::rate(const StreamKernel& kernel, double working_set_bytes, int64_t passes) {
  return rate(kernel, working_set_bytes, passes, 0, floats_per_array(kernel, working_set_bytes));
}

double StreamBuffers::window_rate(const StreamKernel& kernel, double working_set_bytes, double window_bytes) {
  const int64_t whole = floats_per_array(kernel, working_set_bytes);
  const int64_t window = std::min(whole, floats_per_array(kernel, window_bytes));
  if (position_ + window > whole) position_ = 0;
  const double result = rate(kernel, working_set_bytes, 1, position_, window);
  position_ += window;
  return result;
}

}  // namespace d5
