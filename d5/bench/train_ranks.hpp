// SPDX-License-Identifier: Apache-2.0
// A training by several ranks: threads of this process, or processes that mpirun starts, of which rank 0 tells how far
// it is and how it ended.
#pragma once

#include "d5/bench/session.hpp"

namespace d5 {

class Communicator;

// Several ranks; or one on another machine.
bool needs_ranks(const Json& fields);

// Where none is named: threads; of several ranks mpi, where it is there and a launcher is named, or machines are: by a
// cluster or an allocation that this runs in.
std::string usual_communicator(const Json& fields);

// What rank 0 says of it. Error with one message where a rank fails.
Outcome train_by_ranks(const Json& fields, Depth);

// The process of one rank; `file` holds the case.
int train_rank_main(const std::string& file);

}  // namespace d5
