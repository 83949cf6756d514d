// SPDX-License-Identifier: Apache-2.0
// A program of a formula as CUDA C++: two kernels that read every stream once. Threads of a block share a chunk, which
// is a part of one piece:
//   elements(streams, chunks, table, shared, wide)             stores
//   squares(streams, chunks, table, shared, wide, sums)        sums[chunk x stores + store] of what it would store
// Numbers are those of the chunk's row of `table`, or `shared` where that is null.
#pragma once

#include <string>

#include "d5/training/program.hpp"

namespace d5 {

struct CudaChunk {
  int64_t first;
  int32_t count, row;
};
constexpr int cuda_block = 256;     // threads
constexpr Index cuda_chunk = 4096;  // elements at most

std::string cuda_source(const Program&);

}  // namespace d5
