// SPDX-License-Identifier: Apache-2.0
// The measured roofline of this machine (Williams, Waterman and Patterson, 2009): the highest arithmetic rate per
// element type and the bandwidth at a working-set size, because hot data does not come from memory.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "d5/core/dtype.hpp"

namespace d5 {

struct Roofline {
  std::map<std::string, double> peak_flops;          // by dtype name; a fused multiply-add is two
  std::vector<std::pair<double, double>> bandwidth;  // working-set bytes -> bytes/s, sizes rising, rates falling
  int threads = 1;

  // The type's own peak. Floats stored narrower than f32 that have none are computed in f32; 0: no peak is known.
  double peak(DType) const;
  // Linear in the logarithm of the size, exact at the measured sizes, constant beyond the first and the last.
  double bandwidth_at(double working_set_bytes) const;
  // No run can be faster: the larger of flops at peak and compulsory bytes at bandwidth. A type without a peak is
  // bounded by its bytes alone.
  double bound_seconds(double flops, double compulsory_bytes, double working_set_bytes, DType) const;
  // The same machine at another speed.
  Roofline scaled(double compute_ratio, double bandwidth_ratio) const;
};
nlohmann::json to_json(const Roofline&);
Roofline roofline_from_json(const nlohmann::json&);  // Error where it is not one

// Measures peaks and the bandwidth curve from 16 KiB to four times the last-level cache; takes about budget_seconds
// (a little more on machines with very large caches). Sets threads() meanwhile and restores it.
Roofline measure_roofline(int threads, double budget_seconds);

// The same, measured once per machine and kept (roofline_cache.hpp); the first call takes about two seconds.
Roofline cached_roofline(int threads);

// A quick look at the machine's present speed, in the same round as a case: 2 to 5 ms per call. Owns its buffers; they
// are made on the first call for a size, which takes longer.
class Probe {
 public:
  explicit Probe(int threads);
  ~Probe();
  double peak_flops(DType);  // 0 where no peak is known
  // Of a case that writes so much of its bytes, where it is said. What one core reads and what it writes have limits of
  // their own in memory, below that of a mix: a sum is not held against a copy.
  double bandwidth(double working_set_bytes, std::optional<double> written_share = {});
  // The roofline as it stands now for a case: scaled by what the probe sees against what was measured at leisure.
  Roofline now(const Roofline& measured, double working_set_bytes, DType);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct Sharing {
  double ratio;       // 2-thread rate / 1-thread rate of one FMA loop
  bool cores_shared;  // ratio < 1.5: two threads are on one core
};
Sharing probe_core_sharing();  // {1, false} with fewer than two usable cores: there is nothing to share

}  // namespace d5
