// SPDX-License-Identifier: Apache-2.0
// Ranks that outnumber the cores would measure contention. Instead rank 0 computes a few steps alone, while the others
// sleep; from then on every rank sleeps as long as that took, and tells of gradients when they came, so that
// communication, which is real, meets the same times as on a machine for each rank. What is learned has no meaning:
// every rank computes one real step, and its gradients are used again and again.
#pragma once

#include <memory>

#include "d5/backends/backend.hpp"

namespace d5 {

class Communicator;

// Training is replayed, tests are computed. Beside one rank alone (null) nothing is replayed.
std::unique_ptr<Backend> replayed_backend(std::unique_ptr<Backend>, Communicator*);

}  // namespace d5
