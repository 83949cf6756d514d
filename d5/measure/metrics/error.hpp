// SPDX-License-Identifier: Apache-2.0
// A norm of the error that the check before the measurement found (details.check of the record).
#pragma once

#include <cmath>

#include "d5/measure/metric.hpp"

namespace d5 {

inline std::optional<Metric> checked_norm(const Measured& m, const char* norm) {
  if (!m.check.is_object()) return std::nullopt;
  // An error that is not finite came as null: JSON has no other word for it.
  const auto& error = m.check.at(norm);
  return Metric{.unit = "1", .median = error.is_number() ? error.get<double>() : NAN, .n = m.check.at("compared")};
}

}  // namespace d5
