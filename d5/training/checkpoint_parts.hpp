// SPDX-License-Identifier: Apache-2.0
// Checkpoints of several ranks. FILE is rank 0's, a checkpoint like that of one process; FILE.ID.rN is what rank N has
// of its own: its text, and the sections in which it differs from rank 0. All parts lie on the disk before FILE is
// renamed, and those that the last FILE names are removed after that: whenever ranks die, FILE and its parts are whole.
#pragma once

#include <functional>
#include <span>

#include "d5/training/checkpoint.hpp"

namespace d5 {

struct CheckpointRanks {
  int rank = 0, ranks = 1;
  std::function<void(std::span<double>)> sum;  // each number becomes its sum over all ranks
};

// By all ranks at once, with sections of the same names. Empty: it is written; else, on all of them, why not: what was
// there stays.
std::string write_parts(const std::string& file, const std::string& about, const NamedTensors&, const CheckpointRanks&);

// `saved` is what FILE holds; it becomes what `rank` of `ranks` goes on with. As many ranks as wrote it: each has its
// own again. Another number: the sections in which ranks differed become their means, and `summed_section` is rank 0's
// sum of all. Error where integers differ, or a part is missing or of another checkpoint.
void read_parts(const std::string& file, Checkpoint& saved, int rank, int ranks);

inline constexpr const char* summed_section = "quality of the epoch";

}  // namespace d5
