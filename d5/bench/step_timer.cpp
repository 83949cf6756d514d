// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/step_timer.hpp"

#include <algorithm>

#include "d5/core/parallel.hpp"
#include "d5/measure/clock.hpp"
#include "d5/measure/quantile.hpp"

namespace d5 {

StepTimer::StepTimer(Backend& backend, Executable& executable, std::function<void()> step)
    : backend_(backend), times_itself_(dynamic_cast<TimesItself*>(&executable)), step_(std::move(step)) {}

void StepTimer::describe_bound(const Cost& cost, std::optional<double> written_bytes, DType type, Math math,
                               const std::string& device, bool cold, Json& details) {
  type_ = type;
  math_ = math;
  working_set_ = cost.bytes;
  if (written_bytes && cost.bytes > 0) written_share_ = std::min(1.0, *written_bytes / cost.bytes);
  device_probe_ = backend_.probe(device);
  if (!device_probe_ && device == "cpu") probe_ = std::make_unique<Probe>(threads());
  if (cold) {
    if (device_probe_)
      flushes_device_ = true;
    else
      flusher_ = std::make_unique<CacheFlusher>();
    working_set_ =
        std::max(working_set_, device_probe_ ? device_probe_->cache_bytes() : static_cast<double>(flusher_->bytes()));
  }
  peak_flops();  // the first call makes buffers
  bandwidth();
  details["cost"] = {{"flops", cost.flops}, {"bytes", cost.bytes}, {"working_set_bytes", working_set_}};
}

void StepTimer::warm_up(Json& details) {
  std::vector<double> seconds;
  const double begin = now_seconds();
  // The check has run it before; one that takes seconds is as warm as it gets.
  const auto enough = [&] {
    const double spent = now_seconds() - begin;
    return !seconds.empty() && (spent > 2 || (seconds.size() >= 3 && spent > 0.1));
  };
  while (!enough() && seconds.size() < 1000)
    seconds.push_back(time_steps({.samples = 1, .batch = 1, .rewarm = 0}).seconds.front());
  details["warmup_s"] = seconds;
  details["seconds_per_iteration"] = median({seconds.begin() + static_cast<long>(seconds.size() / 2), seconds.end()});
}

SliceResult StepTimer::run(const Slice& slice, Meters& meters) {
  if (!flusher_) meters.begin();  // what flushing costs is not the case's
  SliceResult result = time_steps(slice);
  if (!flusher_) meters.end(slice.rewarm + slice.samples * slice.batch);
  result.probe = {{"peak_flops", peak_flops()}, {"bandwidth", bandwidth()}};
  return result;
}

SliceResult StepTimer::time_steps(const Slice& slice) {
  if (times_itself_) return times_itself_->time_steps(slice, flusher_ ? flusher_->bytes() : 0);
  SliceResult result;
  result.seconds.reserve(static_cast<size_t>(slice.samples));
  result.start.reserve(static_cast<size_t>(slice.samples));
  for (int64_t i = 0; i < slice.rewarm; ++i) step_();
  backend_.synchronize();
  for (int64_t sample = 0; sample < slice.samples; ++sample) {
    flush();
    result.start.push_back(now_seconds());
    const Mark begin = backend_.mark();
    for (int64_t i = 0; i < slice.batch; ++i) step_();
    const Mark end = backend_.mark();
    result.seconds.push_back(backend_.seconds(begin, end) / static_cast<double>(slice.batch));
  }
  return result;
}

void StepTimer::flush() {
  if (flusher_) flusher_->flush();
  if (flushes_device_) device_probe_->flush();
}

// 0: nobody here can tell (a worker in another language, on a device).
double StepTimer::peak_flops() {
  return device_probe_ ? device_probe_->peak_flops(type_, math_) : probe_ ? probe_->peak_flops(type_) : 0;
}
double StepTimer::bandwidth() {
  return device_probe_ ? device_probe_->bandwidth(working_set_)
         : probe_      ? probe_->bandwidth(working_set_, written_share_)
                       : 0;
}

}  // namespace d5
