// SPDX-License-Identifier: Apache-2.0
// Ring (Patarasuk and Yuan, 2009): n - 1 steps of S/n bytes reduce a chunk on every rank, n - 1 more tell everyone.
//   allreduce       2 (n - 1) (alpha + S/n beta)      the least bytes, many messages
//   reduce_scatter, allgather   half of it
#include "d5/distributed/algorithm.hpp"
#include "d5/distributed/algorithms/ring_steps.hpp"

namespace d5 {
namespace {

class Ring final : public Algorithm {
 public:
  std::string about() const override { return "every rank sends a chunk to the next; least bytes"; }
  std::optional<std::string> why_not(const Operation& op, const Ranks&) const override {
    if (op.collective == Collective::allreduce || op.collective == Collective::reduce_scatter ||
        op.collective == Collective::allgather)
      return {};
    return fmt::format("it has no {}; it has allreduce, reduce_scatter, allgather", name(op.collective));
  }
  void run(const Operation& op, const Ranks& ranks) const override {
    if (op.collective == Collective::reduce_scatter) return ring_reduce_scatter_blocks(op, ranks, 1);
    if (op.collective == Collective::allgather) return ring_allgather_blocks(op, ranks, 1);
    ring_allreduce(op, ranks, 1);
  }
};

}  // namespace
D5_REGISTER(algorithms, "ring", Ring);
}  // namespace d5
