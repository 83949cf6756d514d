// SPDX-License-Identifier: Apache-2.0
// NVIDIA devices as NVML tells of them.
#include "d5/measure/environment_parts.hpp"
#include "d5/measure/nvml.hpp"

namespace d5 {
namespace {

using nlohmann::json;

json watts(const json& milliwatts) { return milliwatts.is_null() ? json() : json(milliwatts.get<double>() / 1000); }

}  // namespace

json gpu_environment() {
  const Nvml nvml;
  if (!nvml.started()) return json::array();
  json devices = json::array();
  for (unsigned i = 0; i < nvml.count(); ++i) {
    const Nvml::Device device = nvml.device(i);
    if (!device) continue;
    const json persistence = nvml.number("nvmlDeviceGetPersistenceMode", device);
    devices.push_back({{"name", nvml.name(device)},
                       {"driver", nvml.driver()},
                       {"cuda_driver", nvml.cuda_driver()},
                       {"memory_bytes", nvml.memory(device, &Nvml::Memory::total)},
                       {"error_correction", nvml.error_correction(device)},
                       {"persistence", persistence.is_null() ? json() : json(persistence == 1)},
                       {"power_limit_w", watts(nvml.number("nvmlDeviceGetPowerManagementLimit", device))},
                       {"mhz_max", nvml.number<int>("nvmlDeviceGetMaxClockInfo", device, Nvml::clock_graphics)},
                       {"memory_mhz_max", nvml.number<int>("nvmlDeviceGetMaxClockInfo", device, Nvml::clock_memory)}});
  }
  return devices;
}

json gpu_now() {
  const Nvml nvml;
  if (!nvml.started()) return json::array();
  json devices = json::array();
  for (unsigned i = 0; i < nvml.count(); ++i) {
    const Nvml::Device device = nvml.device(i);
    if (!device) continue;
    devices.push_back({{"mhz", nvml.number<int>("nvmlDeviceGetClockInfo", device, Nvml::clock_graphics)},
                       {"memory_mhz", nvml.number<int>("nvmlDeviceGetClockInfo", device, Nvml::clock_memory)},
                       {"power_state", nvml.number("nvmlDeviceGetPerformanceState", device)},
                       {"power_w", watts(nvml.number("nvmlDeviceGetPowerUsage", device))},
                       {"celsius", nvml.number<int>("nvmlDeviceGetTemperature", device, Nvml::temperature_gpu)},
                       {"used_bytes", nvml.memory(device, &Nvml::Memory::used)}});
  }
  return devices;
}

}  // namespace d5
