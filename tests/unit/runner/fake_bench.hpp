// SPDX-License-Identifier: Apache-2.0
// Cases that misbehave on purpose. Field "does" says how, "when" in which call (prepare, run, finish).
#pragma once

#include "d5/bench/session.hpp"

namespace d5 {

Json fake_case(const std::string& backend, const std::string& does = "well", const std::string& when = "run");

}  // namespace d5
