// SPDX-License-Identifier: Apache-2.0
// The all-reduce algorithm of a training's ranks: as the case names it, as tuned, or as usual.
#pragma once

#include <nlohmann/json.hpp>

#include "d5/core/parameter_set.hpp"
#include "d5/distributed/communicator.hpp"

namespace d5 {

std::vector<std::string> algorithm_choices();  // that a case may name, beside none

// By all ranks at once, before the training begins: what is timed here is not its time. The answer is for the record:
// what was asked for, what is used from how many bytes on, and where that is from. CannotRun where the algorithm
// cannot.
nlohmann::json choose_algorithm(const nlohmann::json& fields, const ParameterSet&, Communicator&);

bool sends_by_library(const nlohmann::json& chosen);  // of that answer: at some size

}  // namespace d5
