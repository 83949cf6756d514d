// SPDX-License-Identifier: Apache-2.0
// One case of `d5 data bench` in a child: an iteration is one batch out of the loader.
#pragma once

#include "d5/bench/session.hpp"

namespace d5 {

std::unique_ptr<Session> open_data_session(const Json& fields);

}  // namespace d5
