// SPDX-License-Identifier: Apache-2.0
#include "d5/distributed/algorithms/ring_steps.hpp"

#include <array>
#include <cstring>

namespace d5 {
namespace {

// Messages of a ring in the order in which they go round: number i is segment i % segments of step i / segments. In the
// first half of the steps chunks are added up on their way, in the second half everyone is told.
class Schedule {
 public:
  Schedule(const Operation& op, const Ranks& ranks, int64_t count, int segments)
      : width_(storage_bytes(op.dtype, 1)),
        rank_(ranks.rank()),
        ranks_(ranks.size()),
        count_(count),
        segments_(segments) {}

  int64_t half() const { return (ranks_ - 1) * segments_; }
  struct Piece {
    int64_t elements;
    size_t offset, bytes;
  };
  Piece sent(int64_t message) const { return piece(rank_ - 1, message); }
  Piece received(int64_t message) const { return piece(rank_ - 2, message); }
  size_t longest_bytes() const {
    const int64_t chunk = (count_ + ranks_ - 1) / ranks_;
    return static_cast<size_t>(((chunk + segments_ - 1) / segments_ + 1) * width_);
  }

 private:
  // Of the chunk `start` at step 0, and one chunk less with every step.
  Piece piece(int64_t start, int64_t message) const {
    const int64_t step = message / segments_, segment = message % segments_;
    const int64_t chunk = ((start - step) % ranks_ + ranks_) % ranks_;
    const int64_t begin = part_begin(count_, ranks_, chunk), length = part_begin(count_, ranks_, chunk + 1) - begin;
    const int64_t first = begin + part_begin(length, segments_, segment);
    const int64_t elements = begin + part_begin(length, segments_, segment + 1) - first;
    return {elements, static_cast<size_t>(first * width_), static_cast<size_t>(elements * width_)};
  }

  int64_t width_, rank_, ranks_, count_, segments_;
};

constexpr int64_t ahead = 4;  // messages that are under way in each direction

// Messages `begin` to `end`. What goes out as message i came in as message i - segments, so that with several segments
// the next ones are on their way while one is added up, from the first half into the second, too.
void go_round(const Operation& op, const Ranks& ranks, const Schedule& schedule, int segments, const void* in,
              void* out, int64_t begin, int64_t end) {
  const int n = ranks.size(), next = (ranks.rank() + 1) % n, previous = (ranks.rank() + n - 1) % n;
  const auto* const source = static_cast<const std::byte*>(in);
  auto* const target = static_cast<std::byte*>(out);
  const int64_t half = schedule.half(), depth = std::min<int64_t>(segments, ahead);
  const size_t slot = schedule.longest_bytes();
  std::byte* const buffers = begin < half ? ranks.scratch(slot * static_cast<size_t>(depth)) : nullptr;
  std::array<Transfer, ahead> received, sent;
  const auto buffer = [&](int64_t i) { return buffers + slot * static_cast<size_t>(i % depth); };
  const auto listen = [&](int64_t i) {
    const auto piece = schedule.received(i);
    received[i % depth] = ranks.receive(previous, i < half ? buffer(i) : target + piece.offset, piece.bytes);
  };
  for (int64_t i = begin; i < std::min(begin + depth, end); ++i) listen(i);
  int64_t outgoing = begin;
  for (int64_t i = begin; i < end; ++i) {
    for (; outgoing < std::min(i + depth, end); ++outgoing) {
      if (outgoing >= begin + depth) ranks.wait(sent[outgoing % depth]);
      const auto piece = schedule.sent(outgoing);
      sent[outgoing % depth] = ranks.send(next, (outgoing < segments ? source : target) + piece.offset, piece.bytes);
    }
    ranks.wait(received[i % depth]);
    if (i < half) {
      const auto piece = schedule.received(i);
      combine(op, target + piece.offset, source + piece.offset, buffer(i), piece.elements);
      if (i >= half - segments) finish(op, target + piece.offset, piece.elements);
    }
    if (i + depth < end) listen(i + depth);
  }
  for (int64_t i = std::max(begin, end - depth); i < end; ++i) ranks.wait(sent[i % depth]);
}

}  // namespace

int segments_of(const Operation& op, int64_t chunk_elements, int64_t bytes) {
  return static_cast<int>(std::max<int64_t>(1, (storage_bytes(op.dtype, chunk_elements) + bytes - 1) / bytes));
}

void ring_allreduce(const Operation& op, const Ranks& ranks, int segments) {
  const Schedule schedule(op, ranks, op.count, segments);
  go_round(op, ranks, schedule, segments, op.input, op.output, 0, 2 * schedule.half());
}

void ring_reduce_scatter_blocks(const Operation& op, const Ranks& ranks, int segments) {
  const auto block = static_cast<size_t>(storage_bytes(op.dtype, op.count));
  const auto n = static_cast<size_t>(ranks.size());
  const std::unique_ptr<std::byte[]> sums(new std::byte[block * n]);
  const Schedule schedule(op, ranks, op.count * ranks.size(), segments);
  go_round(op, ranks, schedule, segments, op.input, sums.get(), 0, schedule.half());
  if (block > 0) std::memcpy(op.output, sums.get() + block * static_cast<size_t>(ranks.rank()), block);
}

void ring_allgather_blocks(const Operation& op, const Ranks& ranks, int segments) {
  const auto block = static_cast<size_t>(storage_bytes(op.dtype, op.count));
  auto* const own = static_cast<std::byte*>(op.output) + block * static_cast<size_t>(ranks.rank());
  if (block > 0) std::memcpy(own, op.input, block);
  const Schedule schedule(op, ranks, op.count * ranks.size(), segments);
  go_round(op, ranks, schedule, segments, op.output, op.output, schedule.half(), 2 * schedule.half());
}

}  // namespace d5
