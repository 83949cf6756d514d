// SPDX-License-Identifier: Apache-2.0
// The two halves of everything that goes round a ring, shared by `ring` (one segment a chunk) and `segmented_ring`.
// `count` elements are divided into as many chunks as ranks, as evenly as can be.
#pragma once

#include "d5/distributed/ranks.hpp"

namespace d5 {

// Afterwards chunk r of `out` is reduced and finished on rank r; the rest of `out` holds partial sums.
void ring_reduce_scatter(const Operation&, const Ranks&, const void* in, void* out, int64_t count, int segments);
// Chunk r of `data` is right on rank r before, all of it is on every rank afterwards.
void ring_allgather(const Operation&, const Ranks&, void* data, int64_t count, int segments);

// reduce_scatter and allgather of whole blocks by the two halves above.
void ring_reduce_scatter_blocks(const Operation&, const Ranks&, int segments);
void ring_allgather_blocks(const Operation&, const Ranks&, int segments);

// So many that none is longer than `bytes`.
int segments_of(const Operation&, int64_t chunk_elements, int64_t bytes);

// Where part i of `parts` begins.
inline int64_t part_begin(int64_t count, int64_t parts, int64_t i) {
  return count / parts * i + count % parts * i / parts;
}

}  // namespace d5
