// SPDX-License-Identifier: Apache-2.0
// NVML, NVIDIA's management library. It belongs to the driver, so it is opened at run time; the few functions that are
// used are declared here, because its header comes with another package. What a device does not tell is null.
#pragma once

#include <dlfcn.h>

#include <array>
#include <nlohmann/json.hpp>

namespace d5 {

class Nvml {
 public:
  using json = nlohmann::json;
  using Device = void*;  // nvmlDevice_t
  struct Memory {        // nvmlMemory_t
    unsigned long long total, free, used;
  };
  static constexpr int success = 0;
  static constexpr int clock_graphics = 0, clock_memory = 2;  // nvmlClockType_t
  static constexpr int temperature_gpu = 0;
  static constexpr unsigned driver_name_bytes = 80, device_name_bytes = 96;

  Nvml() : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (!library_) return;
    const auto start = function<int (*)()>("nvmlInit_v2");
    started_ = start && start() == success;
  }
  ~Nvml() {
    if (started_)
      if (const auto stop = function<int (*)()>("nvmlShutdown")) stop();
    if (library_) dlclose(library_);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  bool started() const { return started_; }
  template <class Function>
  Function function(const char* name) const {
    return reinterpret_cast<Function>(dlsym(library_, name));
  }

  unsigned count() const {
    const auto get = function<int (*)(unsigned*)>("nvmlDeviceGetCount_v2");
    unsigned devices = 0;
    return get && get(&devices) == success ? devices : 0;
  }
  Device device(unsigned index) const {
    const auto get = function<int (*)(unsigned, Device*)>("nvmlDeviceGetHandleByIndex_v2");
    Device device = nullptr;
    return get && get(index, &device) == success ? device : nullptr;
  }
  json driver() const {
    const auto get = function<int (*)(char*, unsigned)>("nvmlSystemGetDriverVersion");
    std::array<char, driver_name_bytes> text{};
    return get && get(text.data(), driver_name_bytes) == success ? json(text.data()) : json();
  }
  json cuda_driver() const {
    const auto get = function<int (*)(int*)>("nvmlSystemGetCudaDriverVersion_v2");
    int version = 0;
    return get && get(&version) == success ? json(version) : json();
  }
  json name(Device device) const {
    const auto get = function<int (*)(Device, char*, unsigned)>("nvmlDeviceGetName");
    std::array<char, device_name_bytes> text{};
    return get && get(device, text.data(), device_name_bytes) == success ? json(text.data()) : json();
  }
  // A number that one function gives, with what it is asked for (a kind of clock) before it.
  template <class... Asked>
  json number(const char* name, Device device, Asked... asked) const {
    const auto get = function<int (*)(Device, Asked..., unsigned*)>(name);
    unsigned value = 0;
    return get && get(device, asked..., &value) == success ? json(value) : json();
  }
  json memory(Device device, unsigned long long Memory::*part) const {
    const auto get = function<int (*)(Device, Memory*)>("nvmlDeviceGetMemoryInfo");
    Memory memory{};
    return get && get(device, &memory) == success ? json(memory.*part) : json();
  }
  // Millijoules since the driver was loaded.
  json energy(Device device) const {
    const auto get = function<int (*)(Device, unsigned long long*)>("nvmlDeviceGetTotalEnergyConsumption");
    unsigned long long spent = 0;
    return get && get(device, &spent) == success ? json(spent) : json();
  }
  json error_correction(Device device) const {
    const auto get = function<int (*)(Device, unsigned*, unsigned*)>("nvmlDeviceGetEccMode");
    unsigned now = 0, pending = 0;
    return get && get(device, &now, &pending) == success ? json(now == 1) : json();
  }

 private:
  void* library_;
  bool started_ = false;
};

}  // namespace d5
