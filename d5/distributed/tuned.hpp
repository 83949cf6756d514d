// SPDX-License-Identifier: Apache-2.0
// Which algorithm is the fastest for which size, kept from one run to the next: algorithms-HASH.json in the user's
// cache, one for each library, machines, ranks, element type and collective. `d5 comm` with algorithm auto times all
// sizes anew; a training takes what is there and times what is missing.
#pragma once

#include "d5/distributed/communicator.hpp"

namespace d5 {

struct Tuned {
  std::vector<AlgorithmChoice> choice;  // that the communicator has now
  int64_t timed = 0;                    // sizes, here and now
  double seconds = 0;                   // that this took
  std::string file;                     // empty: not kept
};
enum class Timing { missing, all };

// By all ranks at once. `library` tells communicators apart that time differently.
Tuned choose_tuned(Communicator&, Collective, DType, const std::vector<int64_t>& sizes, const std::string& library,
                   Timing);
// From 1 KiB to the first that is not below, each four times the one before; 16 MiB is enough to know what is best
// for more.
std::vector<int64_t> sizes_to_tune(int64_t most_bytes);

}  // namespace d5
