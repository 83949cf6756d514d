// SPDX-License-Identifier: Apache-2.0
// Arithmetic rate: the operator's flops (a multiply-add counts two) / median time.
#include "d5/measure/metrics/rate.hpp"

namespace d5 {
namespace {

class Gflops final : public Meter {
 public:
  std::string about() const override { return "arithmetic rate: flops of the operator's formula / time"; }
  std::string unit() const override { return "GFLOP/s"; }
  bool smaller_is_better() const override { return false; }
  std::optional<Metric> value(const Measured& m) const override {
    return m.flops > 0 ? rate(m, m.flops * 1e-9, unit()) : std::nullopt;
  }
};

}  // namespace
D5_REGISTER(metrics, "gflops", Gflops);
}  // namespace d5
