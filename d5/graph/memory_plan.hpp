// SPDX-License-Identifier: Apache-2.0
// Where buffers lie in one arena. A buffer lives for a stretch of steps; buffers whose stretches overlap lie apart, all
// others may take the same bytes. Peak memory is known before anything runs.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace d5 {

// Of the steps first .. last, both included.
struct LifeStretch {
  size_t first = 0, last = 0;
};
struct BufferLife {
  size_t bytes = 0;
  size_t first = 0, last = 0;
  std::vector<LifeStretch> more = {};  // it lives again, in the same place; in between others may have the bytes
};

struct MemoryPlan {
  std::vector<size_t> offsets;  // by buffer, each a multiple of the alignment
  size_t bytes = 0;             // of the arena
  size_t least = 0;             // no plan needs less: the most that lives at one step
};

// Best fit: a buffer takes the smallest gap between those that live with it. Buffers are placed in the order of their
// sizes and in the order in which they begin; the smaller arena wins, on a tie the second, whose bytes were used last.
MemoryPlan plan_memory(std::span<const BufferLife>);

}  // namespace d5
