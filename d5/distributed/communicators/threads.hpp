// SPDX-License-Identifier: Apache-2.0
// Ranks that are threads of one process: for tests and small machines. Messages are copied once, from buffer to buffer.
#pragma once

#include <functional>

#include "d5/distributed/communicator.hpp"

namespace d5 {

// One transport for each of n ranks. `per_node`: ranks that count as one machine; 0: all.
std::vector<std::shared_ptr<Transport>> thread_transports(int n, int per_node = 0);

struct ThreadRanks {
  int ranks = 1, per_node = 0;
  double time_limit_s = 60;
  bool elastic = false;  // ranks that are lost are no error where one ends well
};
// Calls body on every rank and waits for all. A rank that throws is dead to the others, which end with RankLost; the
// caller gets the error that came first.
void run_ranks(const ThreadRanks&, const std::function<void(Communicator&)>& body);

}  // namespace d5
