// SPDX-License-Identifier: Apache-2.0
// Starts the ranks of a plan and listens to what rank 0 tells: mpirun with d5 itself for mpi, one process for threads.
#pragma once

#include "d5/bench/comm.hpp"
#include "d5/distributed/launch.hpp"

namespace d5 {

// Every line that rank 0 told, as it comes. Error with one message where the job ends before it is done: what the first
// rank to fail said, or which rank was lost; within the plan's time limit and a little.
void launch_comm(const CommPlan&, const LaunchOptions&, const Tell&);

// The process of one rank (or, of threads, of all); the plan, or a file that holds it.
int comm_rank_main(const std::string& text_or_file);

}  // namespace d5
