// SPDX-License-Identifier: Apache-2.0
// The order in which the children of a comparison take their slices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace d5 {

// One row per round, each a permutation of 0 .. children-1. Two children alternate as ABBA or BAAB (two rounds are a
// block, drawn anew each time), which cancels a linear drift. Three and more follow random cyclic Latin squares: over
// every `children` rounds each child takes each place once. Rounds beyond the last whole block or square are cut off.
std::vector<std::vector<size_t>> latin_rounds(size_t children, size_t rounds, uint64_t seed);

}  // namespace d5
