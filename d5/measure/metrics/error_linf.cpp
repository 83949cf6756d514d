// SPDX-License-Identifier: Apache-2.0
// L-infinity error: the largest |y - expected| of the compared elements.
#include "d5/measure/metrics/error.hpp"

namespace d5 {
namespace {

class ErrorLinf final : public Meter {
 public:
  std::string about() const override { return "largest |error| against the oracle"; }
  std::string unit() const override { return "1"; }
  std::optional<Metric> value(const Measured& m) const override { return checked_norm(m, "linf"); }
};

}  // namespace
D5_REGISTER(metrics, "error_linf", ErrorLinf);
}  // namespace d5
