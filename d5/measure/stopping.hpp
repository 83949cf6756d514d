// SPDX-License-Identifier: Apache-2.0
// When has a measurement taken enough samples? Called from one thread: reset once, then add a sample, ask done, and so
// on. A rule sees one series only, so a comparison cannot stop because it became significant.
#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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
  size_t batch = 1;     // iterations in one sample
  size_t samples = 40;  // fixed: how many
};

// "interval": converged when the interval is narrow enough, looked at only at n = 40, 80, 160, ... and believed from
// 50 effective samples on (at n = 40: when all are); otherwise max_time or max_samples. "fixed": stops after `samples`,
// with why() = "fixed", or earlier at max_time.
std::unique_ptr<StoppingRule> make_stopping_rule(std::string_view name, const StoppingOptions& options);
std::vector<std::string> stopping_rule_names();

// The look of "interval" for whoever keeps the schedule himself (the runner looks after whole launches): does the 95 %
// interval of the median reach no further than relative_width of it on either side? Not believed on fewer than 50
// effective samples, unless all samples are effective.
bool median_is_narrow(std::span<const double> in_time_order, double relative_width);

}  // namespace d5
