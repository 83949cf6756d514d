// SPDX-License-Identifier: Apache-2.0
// What ranks do together, as data: a collective, an element type, buffers. Algorithms and libraries carry it out.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "d5/core/dtype.hpp"

namespace d5 {

enum class Collective {
  allreduce,
  reduce_scatter,
  allgather,
  broadcast,
  reduce,
  gather,
  scatter,
  all_to_all,
  neighbour_exchange,
  send,
  send_receive,
  put,
  get,
  barrier
};
constexpr size_t collective_count = 14;
enum class Reduction { sum, mean, max };  // mean: of floats alone

std::string_view name(Collective);
Collective parse_collective(std::string_view);  // UsageError with the nearest legal name
const std::vector<std::string>& collective_names();
std::string_view name(Reduction);
Reduction parse_reduction(std::string_view);

// `count` is what each rank has and gets for allreduce, broadcast and reduce; for the others it is one block: of n
// ranks the longer side holds n blocks in the order of ranks, of neighbours as many blocks as there are neighbours.
//   collective           input             output
//   allreduce            count             count
//   reduce_scatter       n blocks          the block of this rank, reduced
//   allgather            block             n blocks
//   broadcast            (root) count      count
//   reduce               count             (root) count
//   gather               block             (root) n blocks
//   scatter              (root) n blocks   block
//   all_to_all           n blocks          n blocks
//   neighbour_exchange   k blocks          k blocks: block i goes to and comes from neighbours[i]
//   send                 (root) count      (the rank after it) count
//   send_receive         count             count: to the rank after this one, from the one before it
//   put                  count             the same, by the window of the rank after this one (transport.hpp)
//   get                  count             count of the rank after this one, by its window
// Input and output may be the same for allreduce, broadcast and reduce; otherwise they do not overlap. A mean, a
// broadcast's result and all sums are the same bits on every rank.
struct Operation {
  Collective collective = Collective::barrier;
  const void* input = nullptr;
  void* output = nullptr;
  int64_t count = 0;
  DType dtype = DType::f32;
  Reduction reduction = Reduction::sum;
  int root = 0;
  std::span<const int> neighbours = {};
  std::string_view algorithm = {};  // empty: as the communicator was tuned. It must outlive the request
  int divisor = 0;                  // of a mean; 0: the number of ranks
};

int64_t input_elements(const Operation&, int ranks);  // of the longer side, where only the root has one
int64_t output_elements(const Operation&, int ranks);
// n x block for those that have blocks: the size that collectives are compared by.
int64_t total_bytes(const Operation&, int ranks);

// Bytes that all ranks together must send, whatever the algorithm: a sum of n vectors that everyone needs costs 2 (n -
// 1) vectors, one that is needed once, or one that everyone gets, n - 1, one that goes to the next rank, n.
double least_bytes_sent(const Operation&, int ranks);

// destination = a + b, the greater one for max. In the storage type; 16-bit floats are added in float and rounded once.
void combine(const Operation&, void* destination, const void* a, const void* b, int64_t elements);
// What is left to do with a finished sum: a mean is divided.
void finish(const Operation&, void* data, int64_t elements);

}  // namespace d5
