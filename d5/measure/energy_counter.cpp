// SPDX-License-Identifier: Apache-2.0
#include "d5/measure/energy_counter.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "d5/core/error.hpp"

namespace d5 {
namespace {

std::optional<uint64_t> number_in(const std::string& path) {
  uint64_t value = 0;
  return std::ifstream(path) >> value ? std::optional(value) : std::nullopt;
}

}  // namespace

EnergyCounter::EnergyCounter(const std::string& folder) {
  std::error_code absent;
  for (const auto& entry : std::filesystem::directory_iterator(folder, absent)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("intel-rapl:") || std::ranges::count(name, ':') != 1) continue;
    const std::string file = (entry.path() / "energy_uj").string();
    if (!number_in(file)) {
      reason_ = fmt::format("{} cannot be read (it is the administrator's on most systems)", file);
      continue;
    }
    packages_.push_back({file, number_in((entry.path() / "max_energy_range_uj").string()).value_or(UINT64_MAX)});
  }
  if (packages_.empty() && reason_.empty()) reason_ = fmt::format("this machine shows no energy counter in {}", folder);
}

std::optional<std::string> EnergyCounter::why_not() const {
  return packages_.empty() ? std::optional(reason_) : std::nullopt;
}

std::vector<uint64_t> EnergyCounter::read() const {
  std::vector<uint64_t> readings;
  for (const Package& package : packages_) {
    const auto value = number_in(package.file);
    if (!value) throw Error("[energy] {} can no longer be read", package.file);
    readings.push_back(*value);
  }
  return readings;
}

double EnergyCounter::joules(const std::vector<uint64_t>& from, const std::vector<uint64_t>& to) const {
  double microjoules = 0;
  for (size_t i = 0; i < packages_.size(); ++i)
    microjoules += static_cast<double>(to[i] >= from[i] ? to[i] - from[i] : packages_[i].range - from[i] + to[i]);
  return microjoules * 1e-6;
}

}  // namespace d5
