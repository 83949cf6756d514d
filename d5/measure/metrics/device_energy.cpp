// SPDX-License-Identifier: Apache-2.0
// Energy of one iteration on the GPUs: what NVML's counters of all devices gained in the timed slices / iterations, the
// median over launches. A counter moves every few tens of milliseconds, so single slices are coarse and launches are
// summed; everything that runs on the devices counts.
#include "d5/measure/metric.hpp"
#include "d5/measure/metrics/energy.hpp"
#include "d5/measure/nvml.hpp"

namespace d5 {
namespace {

class DeviceEnergy final : public Meter {
 public:
  std::string about() const override { return "energy of the GPUs in one iteration (NVML)"; }
  std::string unit() const override { return "J"; }
  std::optional<std::string> why_not() const override {
    if (!nvml_.started()) return "no NVIDIA driver here (libnvidia-ml.so.1 does not start)";
    if (nvml_.count() == 0) return "NVML sees no device";
    if (nvml_.energy(nvml_.device(0)).is_null()) return "the device has no energy counter";
    return {};
  }
  void begin() override { at_begin_ = millijoules(); }
  void end(int64_t iterations) override {
    joules_ += (millijoules() - at_begin_) * 1e-3;
    iterations_ += iterations;
  }
  nlohmann::json report(const std::string&) override {
    if (iterations_ == 0) return nullptr;
    return {{"joules", joules_}, {"iterations", iterations_}};
  }
  std::optional<Metric> value(const Measured& m) const override { return energy_per_iteration(m); }

 private:
  double millijoules() const {
    double sum = 0;
    for (unsigned i = 0; i < nvml_.count(); ++i)
      if (const auto spent = nvml_.energy(nvml_.device(i)); !spent.is_null()) sum += spent.get<double>();
    return sum;
  }
  Nvml nvml_;
  double at_begin_ = 0, joules_ = 0;
  int64_t iterations_ = 0;
};

}  // namespace
D5_REGISTER(metrics, "device_energy", DeviceEnergy);
}  // namespace d5
