// SPDX-License-Identifier: Apache-2.0
// A training as a session: prepare does all of it.
#pragma once

#include "d5/bench/session.hpp"

namespace d5 {

std::unique_ptr<Session> open_train_session(const Json& fields);

}  // namespace d5
