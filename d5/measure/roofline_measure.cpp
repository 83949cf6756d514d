// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "d5/core/parallel.hpp"
#include "d5/measure/cache.hpp"
#include "d5/measure/clock.hpp"
#include "d5/measure/roofline.hpp"
#include "d5/measure/roofline_timing.hpp"

namespace d5 {
namespace {

constexpr double smallest_set = 16 << 10;

// The best of several short runs: a peak is what the machine can do, everything that disturbs makes it slower.
double best_peak(const PeakKernel& kernel, int threads, double budget_seconds) {
  const double end = now_seconds() + budget_seconds;
  const int64_t iterations = iterations_for(kernel, 5e-4);
  double best = 0;
  do {
    best = std::max(best, peak_rate(kernel, threads, iterations));
  } while (now_seconds() < end);
  return best;
}

double best_stream(StreamBuffers& buffers, const StreamKernel& kernel, double bytes, double budget_seconds) {
  const double first = buffers.rate(kernel, bytes, 1);  // brings the set into the caches
  const double end = now_seconds() + budget_seconds;
  const auto passes = static_cast<int64_t>(std::clamp(3e-4 * first / bytes, 1.0, 1e6));
  double best = 0;
  do {
    best = std::max(best, buffers.rate(kernel, bytes, passes));
  } while (now_seconds() < end);
  return best;
}

}  // namespace

Roofline measure_roofline(int threads, double budget_seconds) {
  const ThreadsFor scope(threads);
  Roofline roofline;
  roofline.threads = threads;
  const auto& kernels = usable_peak_kernels();
  const double peak_seconds = 0.4 * budget_seconds / static_cast<double>(kernels.size());
  for (const PeakKernel& kernel : kernels) {
    double& peak = roofline.peak_flops[std::string(name(kernel.dtype))];
    peak = std::max(peak, best_peak(kernel, threads, peak_seconds));
  }

  const double largest_set = 4.0 * static_cast<double>(last_level_bytes(threads));
  StreamBuffers buffers(threads, largest_set);
  const auto streams = usable_stream_kernels();
  const double sizes = std::ceil(std::log2(largest_set / smallest_set)) + 1;
  const double stream_seconds = 0.6 * budget_seconds / (sizes * static_cast<double>(streams.size()));
  for (double size = smallest_set;; size = std::min(2 * size, largest_set)) {
    // The best mix of reads and writes: a case with another one must not beat its bound.
    double rate = 0;
    for (const StreamKernel& stream : streams)
      rate = std::max(rate, best_stream(buffers, stream, size, stream_seconds));
    roofline.bandwidth.emplace_back(size, rate);
    if (size >= largest_set) break;
  }
  // A smaller set can do what a larger one does; where it was seen slower, that was noise or the cost of short loops.
  for (size_t i = roofline.bandwidth.size() - 1; i > 0; --i)
    roofline.bandwidth[i - 1].second = std::max(roofline.bandwidth[i - 1].second, roofline.bandwidth[i].second);
  return roofline;
}

struct Probe::State {
  struct Peak {
    const PeakKernel* kernel;
    int64_t iterations;
  };
  explicit State(int n) : threads(n) {}
  int threads;
  std::map<DType, Peak> peaks;
  std::map<double, const StreamKernel*> streams;  // the best one by working set
  std::unique_ptr<StreamBuffers> buffers;

  const Peak* peak(DType type) {
    if (const auto known = peaks.find(type); known != peaks.end()) return &known->second;
    double best = 0;
    for (const PeakKernel& kernel : usable_peak_kernels()) {
      const bool widened = kernel.dtype == DType::f32 && is_float(type) && bits(type) < 32;
      if (kernel.dtype != type && !widened) continue;
      const int64_t iterations = iterations_for(kernel, 5e-4);
      const double rate = best_peak(kernel, threads, 2e-3);
      if (rate > best) best = rate, peaks[type] = {&kernel, iterations};
    }
    return best > 0 ? &peaks[type] : nullptr;
  }

  double stream(const StreamKernel& kernel, double bytes) {
    constexpr double window = 8 << 20;
    const bool cached = bytes <= static_cast<double>(last_level_bytes(threads));
    const double first = cached ? buffers->rate(kernel, bytes, 1) : buffers->window_rate(kernel, bytes, window);
    const auto passes = static_cast<int64_t>(std::clamp(5e-4 * first / bytes, 1.0, 1e6));
    const double end = now_seconds() + 1.5e-3;
    double best = 0;
    do {
      best =
          std::max(best, cached ? buffers->rate(kernel, bytes, passes) : buffers->window_rate(kernel, bytes, window));
    } while (now_seconds() < end);
    return best;
  }
};

Probe::Probe(int threads) : state_(std::make_unique<State>(threads)) {}
Probe::~Probe() = default;

double Probe::peak_flops(DType type) {
  const ThreadsFor scope(state_->threads);
  const State::Peak* peak = state_->peak(type);
  double best = 0;
  for (int i = 0; peak && i < 5; ++i)
    best = std::max(best, peak_rate(*peak->kernel, state_->threads, peak->iterations));
  return best;
}

double Probe::bandwidth(double working_set_bytes) {
  const ThreadsFor scope(state_->threads);
  const double largest_set = 4.0 * static_cast<double>(last_level_bytes(state_->threads));
  const double bytes = std::clamp(working_set_bytes, smallest_set, largest_set);
  if (!state_->buffers || state_->buffers->working_set_bytes() < bytes)
    state_->buffers = std::make_unique<StreamBuffers>(state_->threads, bytes);
  const StreamKernel*& chosen = state_->streams[bytes];
  if (chosen) return state_->stream(*chosen, bytes);
  double best = 0;
  for (const StreamKernel& kernel : usable_stream_kernels())
    if (const double rate = state_->stream(kernel, bytes); rate > best) best = rate, chosen = &kernel;
  return best;
}

Roofline Probe::now(const Roofline& measured, double working_set_bytes, DType type) {
  const double peak = measured.peak(type);
  return measured.scaled(peak > 0 ? peak_flops(type) / peak : 1,
                         bandwidth(working_set_bytes) / measured.bandwidth_at(working_set_bytes));
}

Sharing probe_core_sharing() {
  constexpr double limit = 1.5;
  if (usable_cores() < 2) return {1, false};
  const auto& kernels = usable_peak_kernels();
  const auto kernel = std::find_if(kernels.begin(), kernels.end(), [](auto& k) { return k.dtype == DType::f32; });
  const ThreadsFor scope(2);
  const int64_t iterations = iterations_for(*kernel, 1e-3);
  // A moment's disturbance is not sharing: a low ratio is tried for a while before it is believed.
  const double end = now_seconds() + 0.03;
  double one = 0, two = 0;
  for (int i = 0; i < 3 || (two < limit * one && now_seconds() < end); ++i) {
    one = std::max(one, peak_rate(*kernel, 1, iterations));
    two = std::max(two, peak_rate(*kernel, 2, iterations));
  }
  return {two / one, two < limit * one};
}

}  // namespace d5
