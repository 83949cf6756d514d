// SPDX-License-Identifier: Apache-2.0
// Numbers for people: as many decimals as the interval supports and no more.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "d5/measure/quantile.hpp"

namespace d5 {

// The last digit shown is the one where the interval's half width has its first: 14.6234 with 14.58 .. 14.71 is 14.62.
// Without an interval three significant digits. Between 0 and 6 decimals.
int supported_decimals(double value, const std::optional<Interval>& interval);

std::string number_text(double value, int decimals);                // "n/a" where it is not finite
std::string interval_text(const Interval& interval, int decimals);  // "14.58 .. 14.71"

// The unit of time in which `seconds` reads best: {"ms", 1e3}.
std::pair<std::string_view, double> time_unit(double seconds);
std::string seconds_text(double seconds);  // "14.6 ms": three significant digits

}  // namespace d5
