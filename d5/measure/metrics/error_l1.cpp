// SPDX-License-Identifier: Apache-2.0
// L1 error: sum over compared elements of |y - expected|.
#include "d5/measure/metrics/error.hpp"

namespace d5 {
namespace {

class ErrorL1 final : public Meter {
 public:
  std::string about() const override { return "sum of |error| against the oracle"; }
  std::string unit() const override { return "1"; }
  std::optional<Metric> value(const Measured& m) const override { return checked_norm(m, "l1"); }
};

}  // namespace
D5_REGISTER(metrics, "error_l1", ErrorL1);
}  // namespace d5
