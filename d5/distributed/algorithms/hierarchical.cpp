// SPDX-License-Identifier: Apache-2.0
// Hierarchical: reduce within each machine, let one rank of each go round a ring, tell the others of the
// machine. The network carries 2 (m - 1)/m S bytes from each of m machines, however many ranks a machine has.
#include "d5/distributed/algorithm.hpp"

namespace d5 {
namespace {

class Hierarchical final : public Algorithm {
 public:
  std::string about() const override { return "within machines by a tree, between them by a ring"; }
  std::optional<std::string> why_not(const Operation& op, const Ranks&) const override {
    if (op.collective == Collective::allreduce) return {};
    return fmt::format("it has no {}; it has allreduce", name(op.collective));
  }
  void run(const Operation& op, const Ranks& ranks) const override {
    const std::vector<int>& nodes = ranks.transport().nodes();
    std::vector<int> beside, first;  // ranks of this machine; the first rank of each
    std::vector<bool> seen(nodes.size());
    for (int rank = 0; rank < ranks.size(); ++rank) {
      const auto node = static_cast<size_t>(nodes[static_cast<size_t>(rank)]);
      if (node == static_cast<size_t>(nodes[static_cast<size_t>(ranks.rank())])) beside.push_back(rank);
      if (!seen[node]) first.push_back(rank);
      seen[node] = true;
    }
    const bool leads = beside.front() == ranks.rank();
    const Ranks machine(ranks, beside);
    Operation step = op;
    step.root = 0;
    if (machine.size() > 1) {
      step.collective = Collective::reduce;
      step.reduction = op.reduction == Reduction::max ? Reduction::max : Reduction::sum;  // divided once, at the end
      run_algorithm("tree", step, machine);
      step.input = op.output;
    }
    if (leads) {
      step.collective = Collective::allreduce;
      step.reduction = op.reduction;
      run_algorithm("segmented_ring", step, Ranks(ranks, first));
    }
    step.collective = Collective::broadcast;
    step.input = op.output;
    step.reduction = Reduction::sum;
    if (machine.size() > 1) run_algorithm("tree", step, machine);
  }
};

}  // namespace
D5_REGISTER(algorithms, "hierarchical", Hierarchical);
}  // namespace d5
