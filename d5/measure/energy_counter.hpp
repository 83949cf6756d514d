// SPDX-License-Identifier: Apache-2.0
// Energy counters of the processor packages, as Linux shows them: /sys/class/powercap/intel-rapl:N/energy_uj (AMD's
// have the same name). The parts of a package (intel-rapl:N:M) are inside it and not counted again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace d5 {

class EnergyCounter {
 public:
  explicit EnergyCounter(const std::string& folder = "/sys/class/powercap");
  std::optional<std::string> why_not() const;  // empty: there is a counter, and it can be read
  std::vector<uint64_t> read() const;          // microjoules, one a package
  // Spent between two readings; a counter that wrapped around once in between is seen.
  double joules(const std::vector<uint64_t>& from, const std::vector<uint64_t>& to) const;

 private:
  struct Package {
    std::string file;
    uint64_t range;
  };
  std::vector<Package> packages_;
  std::string reason_;
};

}  // namespace d5
