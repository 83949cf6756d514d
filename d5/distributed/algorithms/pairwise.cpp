// SPDX-License-Identifier: Apache-2.0
// Everyone with everyone, one pair at a time: in step k rank r sends to r + k and receives from r - k.
//   all_to_all   (n - 1) (alpha + S/n beta)
// Neighbours swap their blocks all at once.
#include <cstring>

#include "d5/distributed/algorithm.hpp"

namespace d5 {
namespace {

class Pairwise final : public Algorithm {
 public:
  std::string about() const override { return "all_to_all, neighbours and messages, pair by pair"; }
  std::optional<std::string> why_not(const Operation& op, const Ranks&) const override {
    switch (op.collective) {
      case Collective::all_to_all:
      case Collective::neighbour_exchange:
      case Collective::send:
      case Collective::send_receive: return {};
      case Collective::put:
      case Collective::get: return fmt::format("{} is a window's, not an algorithm's", name(op.collective));
      default:
        return fmt::format("it has no {}; it has all_to_all, neighbour_exchange, send, send_receive",
                           name(op.collective));
    }
  }
  void run(const Operation& op, const Ranks& ranks) const override {
    const auto block = static_cast<size_t>(storage_bytes(op.dtype, op.count));
    const auto* const in = static_cast<const std::byte*>(op.input);
    auto* const out = static_cast<std::byte*>(op.output);
    const auto at = [&](int i) { return block * static_cast<size_t>(i); };
    if (op.collective == Collective::neighbour_exchange) {
      std::vector<Transfer> transfers;
      for (size_t i = 0; i < op.neighbours.size(); ++i)
        transfers.push_back(ranks.receive(op.neighbours[i], out + block * i, block));
      for (size_t i = 0; i < op.neighbours.size(); ++i)
        transfers.push_back(ranks.send(op.neighbours[i], in + block * i, block));
      for (Transfer& transfer : transfers) ranks.wait(transfer);
      return;
    }
    const int n = ranks.size(), rank = ranks.rank(), next = (rank + 1) % n, before = (rank + n - 1) % n;
    if (op.collective == Collective::send_receive) return ranks.exchange(next, in, block, before, out, block);
    if (op.collective == Collective::send) {
      if (rank == op.root) ranks.send_now(next, in, block);
      if (before == op.root) ranks.receive_now(before, out, block);
      return;
    }
    if (block > 0) std::memcpy(out + at(rank), in + at(rank), block);
    for (int step = 1; step < n; ++step) {
      const int to = (rank + step) % n, from = (rank + n - step) % n;
      ranks.exchange(to, in + at(to), block, from, out + at(from), block);
    }
  }
};

}  // namespace
D5_REGISTER(algorithms, "pairwise", Pairwise);
}  // namespace d5
