// SPDX-License-Identifier: Apache-2.0
// How trainings drift apart, step by step: details.training.trajectory of records of kind "train".
#pragma once

#include <span>
#include <string>

#include "d5/report/record.hpp"

namespace d5 {

// A table for each baseline: a row for a dozen of the steps, L2 and L-infinity for each training; below it the
// parameters that are furthest in the end. Empty: nothing was compared.
std::string trajectory_text(std::span<const Record> records, bool colour);

// Every step and parameter, for a figure: network, seed, backend, optimizer, baseline, step, parameter, l2, linf. The
// parameter "all" is all trained ones together. Empty: nothing was compared.
std::string trajectory_csv(std::span<const Record> records);

}  // namespace d5
