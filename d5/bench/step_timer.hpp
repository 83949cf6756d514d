// SPDX-License-Identifier: Apache-2.0
// Times one step again and again inside a child, beside what the machine gives in the same slice.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "d5/backends/backend.hpp"
#include "d5/bench/meters.hpp"
#include "d5/bench/session.hpp"
#include "d5/bench/times_itself.hpp"
#include "d5/measure/cache.hpp"
#include "d5/measure/roofline.hpp"

namespace d5 {

class StepTimer {
 public:
  // `step` is one iteration; an executable in another process times itself instead.
  StepTimer(Backend&, Executable&, std::function<void()> step);

  // Of the step, for the bound: its cost and how much of the bytes is written, where that is known. Adds details.cost;
  // `cold` empties the caches before every sample.
  void describe_bound(const Cost&, std::optional<double> written_bytes, DType, Math, const std::string& device,
                      bool cold, Json& details);
  // At least three iterations and a tenth of a second; the later half tells how long one takes.
  void warm_up(Json& details);
  SliceResult run(const Slice&, Meters&);
  bool on_device() const { return device_probe_ != nullptr; }

 private:
  SliceResult time_steps(const Slice&);
  void flush();
  double peak_flops();
  double bandwidth();

  Backend& backend_;
  TimesItself* times_itself_;
  std::function<void()> step_;
  std::unique_ptr<CacheFlusher> flusher_;
  std::unique_ptr<Probe> probe_;               // of the host
  std::unique_ptr<DeviceProbe> device_probe_;  // of the device, where the case runs on one
  bool flushes_device_ = false;
  DType type_ = DType::f32;
  Math math_ = Math::strict;
  double working_set_ = 0;
  std::optional<double> written_share_;  // of the cost's bytes
};

}  // namespace d5
