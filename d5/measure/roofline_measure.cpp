// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include "d5/core/parallel.hpp"
#include "d5/measure/cache.hpp"
#include "d5/measure/clock.hpp"
#include "d5/measure/roofline.hpp"
#include "d5/measure/roofline_timing.hpp"

namespace d5 {
namespace {

constexpr double smallest_set = 16 << 10, window_bytes = 8 << 20;

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

// Walks over a cached set that take about `seconds`; the first bring it into the caches.
int64_t passes_for(StreamBuffers& buffers, const StreamKernel& kernel, double bytes, double seconds) {
  int64_t passes = 1;
  for (int i = 0; i < 2; ++i)
    passes = static_cast<int64_t>(std::clamp(seconds * buffers.rate(kernel, bytes, passes) / bytes, 1.0, 1e6));
  return passes;
}

// Sets larger than the caches are sampled: a short run is more likely to be left in peace than a long one.
double best_stream(StreamBuffers& buffers, const StreamKernel& kernel, double bytes, bool cached,
                   double budget_seconds) {
  const double end = now_seconds() + budget_seconds;
  const int64_t passes = cached ? passes_for(buffers, kernel, bytes, 3e-4) : 1;
  double best = 0;
  do {
    best =
        std::max(best, cached ? buffers.rate(kernel, bytes, passes) : buffers.window_rate(kernel, bytes, window_bytes));
  } while (now_seconds() < end);
  return best;
}

// The widest loop of a type; floats stored narrower that have none are computed in f32. Chosen by the list, not by a
// trial: a disturbed trial would choose wrongly for good.
const PeakKernel* widest_kernel(DType type) {
  const auto& kernels = usable_peak_kernels();
  for (const DType wanted : {type, DType::f32}) {
    const auto found = std::find_if(kernels.rbegin(), kernels.rend(), [&](auto& k) { return k.dtype == wanted; });
    if (found != kernels.rend()) return &*found;
    if (!is_float(type) || bits(type) > 32) break;
  }
  return nullptr;
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

  const auto last_level = static_cast<double>(last_level_bytes(threads));
  const double largest_set = 4 * last_level;
  StreamBuffers buffers(threads, largest_set);
  const auto streams = usable_stream_kernels();
  const double sizes = std::ceil(std::log2(largest_set / smallest_set)) + 1;
  const double stream_seconds = 0.6 * budget_seconds / (sizes * static_cast<double>(streams.size()));
  for (double size = smallest_set;; size = std::min(2 * size, largest_set)) {
    // The best mix of reads and writes: a case with another one must not beat its bound.
    double rate = 0;
    for (const StreamKernel& stream : streams)
      rate = std::max(rate, best_stream(buffers, stream, size, size <= last_level, stream_seconds));
    roofline.bandwidth.emplace_back(size, rate);
    if (size >= largest_set) break;
  }
  // A smaller set can do what a larger one does; where it was seen slower, that was noise or the cost of short loops.
  for (size_t i = roofline.bandwidth.size() - 1; i > 0; --i)
    roofline.bandwidth[i - 1].second = std::max(roofline.bandwidth[i - 1].second, roofline.bandwidth[i].second);
  return roofline;
}

struct Probe::State {
  int threads = 1;
  std::map<DType, int64_t> iterations;
  std::unique_ptr<StreamBuffers> buffers;
};

Probe::Probe(int threads) : state_(std::make_unique<State>()) { state_->threads = threads; }
Probe::~Probe() = default;

double Probe::peak_flops(DType type) {
  const PeakKernel* kernel = widest_kernel(type);
  if (!kernel) return 0;
  const ThreadsFor scope(state_->threads);
  int64_t& iterations = state_->iterations[type];
  if (iterations == 0) iterations = iterations_for(*kernel, 5e-4);
  double best = 0;
  for (int i = 0; i < 5; ++i) best = std::max(best, peak_rate(*kernel, state_->threads, iterations));
  return best;
}

double Probe::bandwidth(double working_set_bytes, std::optional<double> written_share) {
  const ThreadsFor scope(state_->threads);
  const auto last_level = static_cast<double>(last_level_bytes(state_->threads));
  const double bytes = std::clamp(working_set_bytes, smallest_set, 4 * last_level);
  if (!state_->buffers || state_->buffers->working_set_bytes() < bytes)
    state_->buffers = std::make_unique<StreamBuffers>(state_->threads, bytes);
  StreamBuffers& buffers = *state_->buffers;
  const auto kernels = usable_stream_kernels();
  double best = 0;
  if (bytes > last_level) {
    std::map<std::string_view, double> rates;
    for (int round = 0; round < 4; ++round)
      for (const StreamKernel& kernel : kernels) {
        double& rate = rates[kernel.name];
        rate = std::max(rate, buffers.window_rate(kernel, bytes, window_bytes));
        best = std::max(best, rate);
      }
    if (!written_share) return best;
    const double read_alone = rates.at("read") / std::max(1 - *written_share, 1e-9);
    const double write_alone = rates.contains("fill") ? rates.at("fill") / std::max(*written_share, 1e-9) : best;
    return std::min({best, read_alone, write_alone});
  }
  const int64_t passes = passes_for(buffers, kernels.front(), bytes, 4e-4);
  for (const StreamKernel& kernel : kernels)  // those that pass the caches by empty them
    if (kernel.name != "stream" && kernel.name != "fill") best = std::max(best, buffers.rate(kernel, bytes, passes));
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
