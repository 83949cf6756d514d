// SPDX-License-Identifier: Apache-2.0
// A training as a session: prepare does all of it.
#pragma once

#include "d5/bench/session.hpp"

namespace d5 {

std::unique_ptr<Session> open_train_session(const Json& fields);

class Communicator;
// All of a training, or, with a communicator, what its rank does of it. `began` is told the steps that were done
// before, when the first one begins.
Outcome run_training(const Json& fields, Depth, Communicator*, const std::function<void(Index)>& began = {});

}  // namespace d5
