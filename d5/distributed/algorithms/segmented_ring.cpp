// SPDX-License-Identifier: Apache-2.0
// A ring whose chunks travel in segments: one is added up while the next is under way. Broadcast is a chain from the
// root round the ring, in the same segments:
//   broadcast   (n - 2 + S/s) (alpha + s beta)      for segments of s bytes: close to S beta for long messages
#include <array>
#include <cstring>

#include "d5/distributed/algorithm.hpp"
#include "d5/distributed/algorithms/ring_steps.hpp"

namespace d5 {
namespace {

constexpr int64_t segment_bytes = 1 << 19;

void chain_broadcast(const Operation& op, const Ranks& ranks) {
  const int n = ranks.size(), place = (ranks.rank() - op.root + n) % n;
  const int next = (ranks.rank() + 1) % n, previous = (ranks.rank() + n - 1) % n;
  auto* const data = static_cast<std::byte*>(op.output);
  const auto bytes = storage_bytes(op.dtype, op.count);
  if (place == 0 && op.input != op.output && bytes > 0) std::memcpy(data, op.input, static_cast<size_t>(bytes));
  const int64_t segments = segments_of(op, op.count, segment_bytes);
  const auto begin = [&](int64_t i) { return part_begin(bytes, segments, i); };
  const auto size = [&](int64_t i) { return static_cast<size_t>(begin(i + 1) - begin(i)); };
  constexpr int64_t ahead = 4;
  std::array<Transfer, ahead> received, sent;
  const auto listen = [&](int64_t i) { received[i % ahead] = ranks.receive(previous, data + begin(i), size(i)); };
  if (place > 0)
    for (int64_t i = 0; i < std::min(ahead, segments); ++i) listen(i);
  for (int64_t i = 0; i < segments; ++i) {
    if (place > 0) {
      ranks.wait(received[i % ahead]);
      if (i + ahead < segments) listen(i + ahead);
    }
    if (place == n - 1) continue;
    ranks.wait(sent[i % ahead]);
    sent[i % ahead] = ranks.send(next, data + begin(i), size(i));
  }
  for (Transfer& transfer : sent) ranks.wait(transfer);
}

class SegmentedRing final : public Algorithm {
 public:
  std::string about() const override { return "a ring in segments: adding up overlaps with sending"; }
  std::optional<std::string> why_not(const Operation& op, const Ranks&) const override {
    if (op.collective == Collective::allreduce || op.collective == Collective::reduce_scatter ||
        op.collective == Collective::allgather || op.collective == Collective::broadcast)
      return {};
    return fmt::format("it has no {}; it has allreduce, reduce_scatter, allgather, broadcast", name(op.collective));
  }
  void run(const Operation& op, const Ranks& ranks) const override {
    if (op.collective == Collective::broadcast) return chain_broadcast(op, ranks);
    const bool blocks = op.collective != Collective::allreduce;
    const int64_t chunk = blocks ? op.count : (op.count + ranks.size() - 1) / ranks.size();
    const int segments = segments_of(op, chunk, segment_bytes);
    if (op.collective == Collective::reduce_scatter) return ring_reduce_scatter_blocks(op, ranks, segments);
    if (op.collective == Collective::allgather) return ring_allgather_blocks(op, ranks, segments);
    ring_allreduce(op, ranks, segments);
  }
};

}  // namespace
D5_REGISTER(algorithms, "segmented_ring", SegmentedRing);
}  // namespace d5
