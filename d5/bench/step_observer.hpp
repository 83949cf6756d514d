// SPDX-License-Identifier: Apache-2.0
// The events of a network's steps, for whoever wants to look: the whole step, its passes, each operator, gradients that
// are ready. A metric (measure/metric.hpp) that is one of these, too, is shown steps of every case of level 1 where it
// is asked for with --metric, and reports what it saw like any other:
//   class Slowest final : public Meter, public StepObserver { ... };
//   D5_REGISTER(metrics, "slowest_operator", Slowest);
// Observed steps come beside the timed ones, never among them, and every observer has steps of its own.
#pragma once

#include "d5/backends/backend.hpp"
#include "d5/measure/metric.hpp"

namespace d5 {

// Calls, for each step: step_begin, pass_begin(forward), node_begin, node_end, ..., pass_end(forward), the same for
// backward where the case has one, step_end. What is between the passes and step_end is the wait for a device.
class StepObserver : public Observer {
 public:
  virtual int steps() const { return 3; }                       // that it wants to see, after a few that nobody sees
  virtual void network(const Graph&, const CompileOptions&) {}  // once, before the first step; they stay alive
  virtual void step_begin() {}
  virtual void step_end() {}
  virtual void pass_begin(Pass) {}
  virtual void pass_end(Pass) {}
};

}  // namespace d5
