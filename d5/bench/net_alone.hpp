// SPDX-License-Identifier: Apache-2.0
// Nodes of a network taken out of it and timed alone, on the values they have in it: hot, again and again on the same
// buffers, and cold, with the caches emptied before each time.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "d5/bench/net_run.hpp"
#include "d5/measure/cache.hpp"
#include "d5/measure/clock.hpp"

namespace d5 {

struct AloneTimes {
  double hot_s = 0, cold_s = 0;  // of one run of the nodes
  size_t hot_samples = 0, cold_samples = 0;
  std::string why_not;  // then there are no times
};

// The nodes of the graph behind what an executor shows to observers: one, or several that it joined
// ("conv1+bn1+relu1"). Empty where it is a step of the executor's own.
std::vector<size_t> nodes_shown_as(const Graph&, const std::string& shown);

class AloneTimer {
 public:
  // `nodes` of the network's graph are all that will be asked for: what they read is computed once, here.
  AloneTimer(NetRun&, const std::set<size_t>& nodes);

  // One node, or several that an executor computes together.
  AloneTimes time(const std::vector<size_t>& nodes, Pass);

 private:
  Graph taken_out(const std::vector<size_t>& nodes) const;
  bool wants_gradient(const std::string& value) const { return wanted_.contains(value); }
  void time_hot(const std::function<void()>& run, AloneTimes&);
  void time_cold(const std::function<void()>& run, AloneTimes&);
  double seconds(const std::function<void()>& run, int64_t times);

  NetRun& net_;
  Specs specs_;
  std::map<std::string, Tensor> values_;
  std::set<std::string> wanted_;  // values that lead to a parameter: in training they have gradients
  TimerCalibration timer_;
  std::unique_ptr<CacheFlusher> flusher_;
  std::unique_ptr<DeviceProbe> device_;
};

}  // namespace d5
