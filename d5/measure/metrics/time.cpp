// SPDX-License-Identifier: Apache-2.0
// Time of one iteration: the median over all samples, with its order-statistics interval.
#include "d5/measure/metric.hpp"

namespace d5 {

const std::vector<std::string>& usual_metrics() {
  static const std::vector<std::string> names{"time", "gflops", "bandwidth", "error_linf", "error_l1", "error_l2"};
  return names;
}

namespace {

class Time final : public Meter {
 public:
  std::string about() const override { return "median time of one iteration"; }
  std::string unit() const override { return "s"; }
  std::optional<Metric> value(const Measured& m) const override {
    if (!m.time) return std::nullopt;
    Metric metric{.unit = unit(), .median = m.time->median, .n = m.time->n, .n_eff = m.time->n_eff};
    if (m.time->ci95) metric.ci95 = {m.time->ci95->low, m.time->ci95->high};
    return metric;
  }
};

}  // namespace
D5_REGISTER(metrics, "time", Time);
}  // namespace d5
