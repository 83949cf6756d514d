// SPDX-License-Identifier: Apache-2.0
#include "d5/report/number_text.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace d5 {
namespace {

constexpr int most_decimals = 6;

int decimals_from(double exponent) { return static_cast<int>(std::clamp(exponent, 0.0, double(most_decimals))); }

}  // namespace

int supported_decimals(double value, const std::optional<Interval>& interval) {
  if (interval && std::isfinite(interval->high - interval->low)) {
    const double half = (interval->high - interval->low) / 2;
    if (half > 0) return decimals_from(-std::floor(std::log10(half)));
    // No width at all: the clock could not tell the samples apart, which is no reason to print every digit.
  }
  if (!std::isfinite(value) || value == 0) return 0;
  return decimals_from(2 - std::floor(std::log10(std::abs(value))));
}

std::string number_text(double value, int decimals) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, decimals) : "n/a";
}

std::string interval_text(const Interval& interval, int decimals) {
  return number_text(interval.low, decimals) + " .. " + number_text(interval.high, decimals);
}

std::pair<std::string_view, double> time_unit(double seconds) {
  if (!(seconds < 1)) return {"s", 1.0};
  if (seconds >= 1e-3) return {"ms", 1e3};
  if (seconds >= 1e-6) return {"us", 1e6};
  return {"ns", 1e9};
}

std::string seconds_text(double seconds) {
  const auto [unit, factor] = time_unit(seconds);
  return fmt::format("{:.3g} {}", seconds * factor, unit);
}

}  // namespace d5
