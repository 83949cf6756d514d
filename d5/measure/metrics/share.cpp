// SPDX-License-Identifier: Apache-2.0
// Share of the bound: bound / time, the bound probed in the same slice; the median over slices, with its interval.
#include "d5/measure/metric.hpp"

namespace d5 {
namespace {

class Share final : public Meter {
 public:
  std::string about() const override { return "attained part of the roofline, slice by slice"; }
  std::string unit() const override { return "1"; }
  bool smaller_is_better() const override { return false; }
  std::optional<Metric> value(const Measured& m) const override {
    if (m.shares.empty()) return std::nullopt;
    const Summary summary = summarize(m.shares);
    Metric metric{.unit = unit(), .median = summary.median, .n = summary.n, .n_eff = summary.n_eff};
    if (summary.ci95) metric.ci95 = {summary.ci95->low, summary.ci95->high};
    return metric;
  }
};

}  // namespace
D5_REGISTER(metrics, "share", Share);
}  // namespace d5
