// SPDX-License-Identifier: Apache-2.0
// What goes round a ring, shared by `ring` (one segment a chunk) and `segmented_ring`. A vector is divided into as many
// chunks as ranks, as evenly as can be; the last one to add to chunk r is rank r.
#pragma once

#include "d5/distributed/ranks.hpp"

namespace d5 {

void ring_allreduce(const Operation&, const Ranks&, int segments);
// Of whole blocks, one for each rank.
void ring_reduce_scatter_blocks(const Operation&, const Ranks&, int segments);
void ring_allgather_blocks(const Operation&, const Ranks&, int segments);

// So many that none is longer than `bytes`.
int segments_of(const Operation&, int64_t chunk_elements, int64_t bytes);

// Where part i of `parts` begins.
inline int64_t part_begin(int64_t count, int64_t parts, int64_t i) {
  return count / parts * i + count % parts * i / parts;
}

}  // namespace d5
