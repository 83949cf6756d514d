// SPDX-License-Identifier: Apache-2.0
#include "d5/distributed/algorithms/ring_steps.hpp"

#include <array>
#include <cstring>

namespace d5 {
namespace {

// Messages of a ring in the order in which they go round: number i is segment i % segments of step i / segments.
class Schedule {
 public:
  Schedule(const Operation& op, const Ranks& ranks, int64_t count, int segments)
      : width_(storage_bytes(op.dtype, 1)), ranks_(ranks.size()), count_(count), segments_(segments) {}

  int64_t messages() const { return int64_t{ranks_ - 1} * segments_; }
  struct Piece {
    int64_t first, elements;
    size_t offset, bytes;
  };
  // Of the chunk `start` at step 0, and one chunk less with every step.
  Piece piece(int start, int64_t message) const {
    const int64_t step = message / segments_, segment = message % segments_;
    const int64_t chunk = ((start - step) % ranks_ + ranks_) % ranks_;
    const int64_t begin = part_begin(count_, ranks_, chunk), length = part_begin(count_, ranks_, chunk + 1) - begin;
    const int64_t first = begin + part_begin(length, segments_, segment);
    const int64_t elements = begin + part_begin(length, segments_, segment + 1) - first;
    return {first, elements, static_cast<size_t>(first * width_), static_cast<size_t>(elements * width_)};
  }
  size_t longest_bytes() const {
    const int64_t chunk = (count_ + ranks_ - 1) / ranks_;
    return static_cast<size_t>(((chunk + segments_ - 1) / segments_ + 1) * width_);
  }

 private:
  int64_t width_, ranks_, count_, segments_;
};

constexpr int64_t ahead = 4;  // messages that are under way in each direction

}  // namespace

int segments_of(const Operation& op, int64_t chunk_elements, int64_t bytes) {
  return static_cast<int>(std::max<int64_t>(1, (storage_bytes(op.dtype, chunk_elements) + bytes - 1) / bytes));
}

void ring_reduce_scatter(const Operation& op, const Ranks& ranks, const void* in, void* out, int64_t count,
                         int segments) {
  const Schedule schedule(op, ranks, count, segments);
  const int n = ranks.size(), next = (ranks.rank() + 1) % n, previous = (ranks.rank() + n - 1) % n;
  const int sends = previous, receives = ranks.rank() - 2;  // chunks at step 0; the last one received is our own
  const auto* const source = static_cast<const std::byte*>(in);
  auto* const target = static_cast<std::byte*>(out);
  const size_t slot = schedule.longest_bytes();
  // With one segment a message is as long as a chunk; what follows cannot come before it is combined.
  const int64_t depth = segments == 1 ? 1 : ahead;
  std::byte* const buffers = ranks.scratch(slot * static_cast<size_t>(depth));
  std::array<Transfer, ahead> received, sent;
  const int64_t messages = schedule.messages();
  const auto listen = [&](int64_t i) {
    received[i % depth] = ranks.receive(previous, buffers + slot * (i % depth), schedule.piece(receives, i).bytes);
  };
  for (int64_t i = 0; i < std::min(depth, messages); ++i) listen(i);
  for (int64_t i = 0; i < messages; ++i) {
    if (i >= ahead) ranks.wait(sent[i % ahead]);
    const auto outgoing = schedule.piece(sends, i);
    sent[i % ahead] = ranks.send(next, (i < segments ? source : target) + outgoing.offset, outgoing.bytes);
    ranks.wait(received[i % depth]);
    const auto incoming = schedule.piece(receives, i);
    combine(op, target + incoming.offset, source + incoming.offset, buffers + slot * (i % depth), incoming.elements);
    if (i >= messages - segments) finish(op, target + incoming.offset, incoming.elements);
    if (i + depth < messages) listen(i + depth);
  }
  for (int64_t i = std::max<int64_t>(0, messages - ahead); i < messages; ++i) ranks.wait(sent[i % ahead]);
}

void ring_allgather(const Operation& op, const Ranks& ranks, void* data, int64_t count, int segments) {
  const Schedule schedule(op, ranks, count, segments);
  const int n = ranks.size(), next = (ranks.rank() + 1) % n, previous = (ranks.rank() + n - 1) % n;
  auto* const bytes = static_cast<std::byte*>(data);
  std::array<Transfer, ahead> received, sent;
  const int64_t messages = schedule.messages();
  const auto listen = [&](int64_t i) {
    const auto piece = schedule.piece(previous, i);
    received[i % ahead] = ranks.receive(previous, bytes + piece.offset, piece.bytes);
  };
  for (int64_t i = 0; i < std::min(ahead, messages); ++i) listen(i);
  for (int64_t i = 0; i < messages; ++i) {  // what goes out came in as message i - segments
    if (i >= ahead) ranks.wait(sent[i % ahead]);
    const auto piece = schedule.piece(ranks.rank(), i);
    sent[i % ahead] = ranks.send(next, bytes + piece.offset, piece.bytes);
    ranks.wait(received[i % ahead]);
    if (i + ahead < messages) listen(i + ahead);
  }
  for (int64_t i = std::max<int64_t>(0, messages - ahead); i < messages; ++i) ranks.wait(sent[i % ahead]);
}

void ring_reduce_scatter_blocks(const Operation& op, const Ranks& ranks, int segments) {
  const auto block = static_cast<size_t>(storage_bytes(op.dtype, op.count));
  const auto n = static_cast<size_t>(ranks.size());
  const std::unique_ptr<std::byte[]> sums(new std::byte[block * n]);
  ring_reduce_scatter(op, ranks, op.input, sums.get(), op.count * ranks.size(), segments);
  if (block > 0) std::memcpy(op.output, sums.get() + block * static_cast<size_t>(ranks.rank()), block);
}

void ring_allgather_blocks(const Operation& op, const Ranks& ranks, int segments) {
  const auto block = static_cast<size_t>(storage_bytes(op.dtype, op.count));
  auto* const own = static_cast<std::byte*>(op.output) + block * static_cast<size_t>(ranks.rank());
  if (block > 0) std::memcpy(own, op.input, block);
  ring_allgather(op, ranks, op.output, op.count * ranks.size(), segments);
}

}  // namespace d5
