// SPDX-License-Identifier: Apache-2.0
// When has a measurement taken enough samples? Called from one thread: reset once, then add a sample, ask done, and so
// on. A rule sees one series only, so a comparison cannot stop because it became significant.
#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>

#include "d5/core/registry.hpp"

namespace d5 {

class StoppingRule {
 public:
  virtual ~StoppingRule() = default;
  virtual void reset() = 0;
  virtual void add(double sample) = 0;  // seconds per iteration
  virtual bool done() const = 0;
  virtual std::string why() const = 0;  // empty while not done
};

struct StoppingOptions {
  double relative_width = 0.01;  // interval: how far the 95 % interval may reach from the median, on either side
  double max_seconds = std::numeric_limits<double>::infinity();  // of measured time: the sum of samples x batch
  size_t max_samples = 10'240;
  size_t batch = 1;        // iterations in one sample
  size_t first_look = 40;  // interval: it looks at this n and its doublings. fixed: stops here
};

// A rule is registered like everything that can be named: D5_REGISTER(stopping_rules, "interval", IntervalRule);
// Built in are "interval": converged when the interval is narrow enough, believed from 50 effective samples on (at
// n = 40: when all are), otherwise max_time or max_samples; and "fixed": stops at first_look.
struct stopping_rules {
  static constexpr const char* kind = "stopping rule";
  struct Entry {
    std::function<std::unique_ptr<StoppingRule>(const StoppingOptions&)> make;
  };
  template <class T>
  static Entry entry() {
    return {
        [](const StoppingOptions& options) -> std::unique_ptr<StoppingRule> { return std::make_unique<T>(options); }};
  }
};
std::unique_ptr<StoppingRule> make_stopping_rule(std::string_view name, const StoppingOptions& options);

}  // namespace d5
