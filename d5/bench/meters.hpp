// SPDX-License-Identifier: Apache-2.0
// The metrics of a timed case: in the child those that were asked for, in the parent all that its record holds.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "d5/bench/session.hpp"
#include "d5/bench/step_observer.hpp"
#include "d5/measure/metric.hpp"

namespace d5 {

// The child's side.
class Meters {
 public:
  Meters() = default;
  explicit Meters(const MetricRequest&);

  int repeats() const;  // the most that any of them wants
  void see(const CheckedResult&, int run);
  std::vector<StepObserver*> observers() const;  // those that want to see steps of a network
  void begin();
  void end(int64_t iterations);
  void report(Json& details);  // to details.metrics, each once; an unavailable one says why

 private:
  struct Asked {
    std::string name;
    std::unique_ptr<Meter> meter;
    std::string unavailable;
    bool reported = false;
  };
  template <class Act>
  void guarded(Asked&, const char* call, Act act);

  std::string prefix_;
  std::vector<Asked> asked_;
};

// What one of them said, one a launch: after the check, or at the end.
std::vector<Json> reports_of(const CaseResult&, const std::string& metric);

// The parent's side: values of the usual metrics and of those asked for, and a warning for each that has none.
// `measured` holds everything but the check and the reports, which are in the result.
void add_metrics(const CaseResult&, Measured measured, Record&);

}  // namespace d5
