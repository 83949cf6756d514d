// SPDX-License-Identifier: Apache-2.0
// How sure a rate is that was measured over many uneven steps.
#pragma once

#include <optional>
#include <span>

namespace d5 {

// Half the width of the 95 % interval of sum(work) / sum(seconds), as a share of it, by batch means: both series, in
// the order of time, in at most 20 batches whose ratios are taken as independent (ratio estimator, Student's t).
// Empty: fewer than 5 values.
std::optional<double> relative_error_of_rate(std::span<const double> work, std::span<const double> seconds);

}  // namespace d5
