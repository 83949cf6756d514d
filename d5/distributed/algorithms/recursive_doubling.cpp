// SPDX-License-Identifier: Apache-2.0
// Recursive doubling: in step k everyone swaps all it has with the rank whose number differs in bit k.
//   allreduce   log2 n (alpha + S beta)      the fewest messages: for short vectors
//   barrier     log2 n alpha (dissemination: step k tells the rank 2^k further on)
#include "d5/distributed/algorithm.hpp"
#include "d5/distributed/algorithms/power_of_two.hpp"

namespace d5 {
namespace {

class RecursiveDoubling final : public Algorithm {
 public:
  std::string about() const override { return "log2 n swaps of whole vectors; fewest messages"; }
  std::optional<std::string> why_not(const Operation& op, const Ranks&) const override {
    if (op.collective == Collective::allreduce || op.collective == Collective::barrier) return {};
    return fmt::format("it has no {}; it has allreduce, barrier", name(op.collective));
  }
  void run(const Operation& op, const Ranks& ranks) const override {
    if (op.collective == Collective::barrier) return barrier(ranks);
    const Fold fold(ranks);
    fold.enter(op);
    const auto bytes = static_cast<size_t>(storage_bytes(op.dtype, op.count));
    if (const int place = fold.place(); place >= 0) {
      std::byte* const theirs = ranks.scratch(bytes);
      for (int bit = 1; bit < fold.size(); bit *= 2) {
        const int peer = fold.rank_of(place ^ bit);
        ranks.exchange(peer, op.output, bytes, peer, theirs, bytes);
        combine(op, op.output, op.output, theirs, op.count);
      }
      finish(op, op.output, op.count);
    }
    fold.leave(op);
  }

 private:
  static void barrier(const Ranks& ranks) {
    const int n = ranks.size();
    std::byte out{}, in{};
    for (int step = 1; step < n; step *= 2)
      ranks.exchange((ranks.rank() + step) % n, &out, 1, (ranks.rank() + n - step) % n, &in, 1);
  }
};

}  // namespace
D5_REGISTER(algorithms, "recursive_doubling", RecursiveDoubling);
}  // namespace d5
