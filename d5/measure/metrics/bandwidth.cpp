// SPDX-License-Identifier: Apache-2.0
// Traffic rate: compulsory bytes (every input read once, every output written once) / median time.
#include "d5/measure/metrics/rate.hpp"

namespace d5 {
namespace {

class Bandwidth final : public Meter {
 public:
  std::string about() const override { return "traffic rate: every input and output once / time"; }
  std::string unit() const override { return "GB/s"; }
  bool smaller_is_better() const override { return false; }
  std::optional<Metric> value(const Measured& m) const override { return rate(m, m.bytes * 1e-9, unit()); }
};

}  // namespace
D5_REGISTER(metrics, "bandwidth", Bandwidth);
}  // namespace d5
