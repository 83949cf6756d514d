// SPDX-License-Identifier: Apache-2.0
// L2 error: sqrt(sum over compared elements of (y - expected)^2).
#include "d5/measure/metrics/error.hpp"

namespace d5 {
namespace {

class ErrorL2 final : public Meter {
 public:
  std::string about() const override { return "Euclidean norm of the error against the oracle"; }
  std::string unit() const override { return "1"; }
  std::optional<Metric> value(const Measured& m) const override { return checked_norm(m, "l2"); }
};

}  // namespace
D5_REGISTER(metrics, "error_l2", ErrorL2);
}  // namespace d5
