// SPDX-License-Identifier: Apache-2.0
// One network in a child: why_not -> compile -> check against the oracle -> warm up -> measure -> check again.
#pragma once

#include "d5/bench/session.hpp"

namespace d5 {

std::unique_ptr<Session> open_net_session(const Json& fields);  // fields are complete

}  // namespace d5
