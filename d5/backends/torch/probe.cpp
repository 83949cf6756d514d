// SPDX-License-Identifier: Apache-2.0
#include "d5/backends/torch/probe.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/rand.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>

namespace d5::libtorch {
namespace {

// Seconds of one run of f on the device; the best of three, because everything that disturbs makes it slower.
double best_seconds(at::Device device, int64_t repeats, const std::function<void()>& f) {
  const c10::impl::VirtualGuardImpl guard(device.type());
  const c10::Stream stream = guard.getStream(device);
  double best = INFINITY;
  for (int i = 0; i < 3; ++i) {
    c10::Event begin(device.type(), c10::EventFlag::BACKEND_DEFAULT),
        end(device.type(), c10::EventFlag::BACKEND_DEFAULT);
    begin.record(stream);
    for (int64_t r = 0; r < repeats; ++r) f();
    end.record(stream);
    end.synchronize();
    best = std::min(best, 1e-3 * begin.elapsedTime(end) / static_cast<double>(repeats));
  }
  return best;
}

class TorchProbe final : public DeviceProbe {
 public:
  explicit TorchProbe(at::Device device) : device_(device), cache_bytes_(static_cast<double>(l2_bytes(device))) {}

  // A square product that fills the device: 0.2 ms in bf16 and 3 ms in strict f32 on an H200.
  double peak_flops(DType type, Math math) override {
    if (!is_float(type) || bits(type) < 16) return 0;
    const c10::InferenceMode inference;
    const c10::DeviceGuard guard(device_);
    use({.math = math});
    constexpr int64_t n = 4096;
    std::array<at::Tensor, 3>& factors = factors_[type];
    at::Tensor &a = factors[0], &b = factors[1], &c = factors[2];
    if (!a.defined()) {
      const auto options = at::dtype(scalar_type(type)).device(device_);
      a = at::rand({n, n}, options);
      b = at::rand({n, n}, options);
      c = at::empty({n, n}, options);
    }
    const double flops = 2.0 * n * n * n;
    return flops / best_seconds(device_, 1, [&] { at::mm_out(c, a, b); });
  }

  // A copy whose source and target together are the working set. Small sets are limited by launches, so several copies
  // are queued before the clock is read.
  double bandwidth(double working_set_bytes) override {
    const c10::InferenceMode inference;
    const c10::DeviceGuard guard(device_);
    const double bytes = std::clamp(working_set_bytes, 64.0 * 1024, 8 * cache_bytes_);
    const auto half = static_cast<int64_t>(bytes / 2) / 16 * 16;
    if (from_.numel() < half) {
      from_ = at::rand({half / 4}, at::dtype(at::kFloat).device(device_)).view(at::kByte);
      to_ = at::empty({half}, at::dtype(at::kByte).device(device_));
    }
    const at::Tensor from = from_.narrow(0, 0, half).view(at::kFloat), to = to_.narrow(0, 0, half).view(at::kFloat);
    const auto repeats = static_cast<int64_t>(std::clamp(256e6 / bytes, 1.0, 32.0));
    return 2.0 * static_cast<double>(half) / best_seconds(device_, repeats, [&] { to.copy_(from); });
  }

  // Twice the last-level cache is written.
  void flush() override {
    const c10::InferenceMode inference;
    const c10::DeviceGuard guard(device_);
    if (!flushed_.defined())
      flushed_ = at::empty({static_cast<int64_t>(2 * cache_bytes_)}, at::dtype(at::kByte).device(device_));
    flushed_.fill_(1);
  }
  double cache_bytes() const override { return 2 * cache_bytes_; }

 private:
  at::Device device_;
  double cache_bytes_;
  std::map<DType, std::array<at::Tensor, 3>> factors_;
  at::Tensor from_, to_, flushed_;
};

}  // namespace

std::unique_ptr<DeviceProbe> make_probe(at::Device device) {
  if (device.is_cpu()) return nullptr;
  return std::make_unique<TorchProbe>(device);
}

}  // namespace d5::libtorch
