// SPDX-License-Identifier: Apache-2.0
// Which steps are computed again in the backward pass, so that what they made need not be kept (gradient checkpointing;
// Chen, Xu, Zhang and Guestrin, "Training Deep Nets with Sublinear Memory Cost", 2016). The steps are cut into segments
// of about equal bytes, where few values cross. A value that another segment reads is kept, and so are outputs, which
// are written twice with the same values; of the rest a segment computes what its backward pass reads. Several numbers
// of segments are tried, with products (Conv, MatMul, ...) computed again or kept; the memory of each is known exactly,
// and of those that fit the one with the least to compute is taken.
#include <algorithm>
#include <set>

#include "d5/backends/kernel_memory.hpp"
#include "d5/backends/kernel_store.hpp"

namespace d5 {
namespace {

bool at(const std::vector<bool>& list, size_t i) { return i < list.size() && list[i]; }

class Segments {
 public:
  Segments(const KernelPlan& plan, const CompileOptions& options) : plan_(plan), readers_(plan.values.size()) {
    for (size_t v = 0; v < plan.values.size(); ++v) {
      const PlannedValue& value = plan.values[v];
      auto& readers = readers_[value.root];
      readers.insert(readers.end(), value.readers.begin(), value.readers.end());
      if (value.kept || value.input || value.fixed() || options.keeps(value.name)) stays_.insert(value.root);
    }
    for (const PlannedStep& step : plan.steps) {
      double bytes = 0;
      for (const size_t v : step.outputs)
        if (v != none) bytes += static_cast<double>(plan.values[v].bytes());
      made_.push_back(bytes + static_cast<double>(step.kernel->workspace_bytes()));
    }
  }

  // At most `count` of them, with products computed again or not.
  Recomputation divided(size_t count, bool products) const {
    Recomputation plan{.segment = segments(count), .again = std::vector<bool>(plan_.steps.size(), false)};
    const size_t last = plan.segment.back();
    for (size_t s = plan_.steps.size(); s-- > 0;)
      plan.again[s] = plan.segment[s] != last && may_run_again(s, plan.segment, products) && is_needed(s, plan.again);
    return plan;
  }

  // What is computed again, in operations; bytes count as several.
  double cost(const Recomputation& plan) const {
    constexpr double operations_per_byte = 16;
    double sum = 0;
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      if (!plan.again[s]) continue;
      const PlannedStep& step = plan_.steps[s];
      auto inputs = plan_.setup(step).inputs;
      inputs.resize(step.nodes.front().inputs.size());  // followers have theirs behind
      sum += step.op->cost(inputs, Pass::forward).flops + operations_per_byte * made_[s];
    }
    return sum;
  }

 private:
  std::vector<size_t> segments(size_t count) const {
    const size_t steps = plan_.steps.size();
    std::vector<double> before(steps + 1, 0), crossing(steps + 1, 0);
    for (size_t s = 0; s < steps; ++s) before[s + 1] = before[s] + made_[s];
    for (size_t s = 0; s < steps; ++s)
      for (const size_t v : plan_.steps[s].outputs) {
        if (v == none || readers_[v].empty()) continue;
        const size_t end = *std::ranges::max_element(readers_[v]);
        for (size_t cut = s + 1; cut <= end; ++cut) crossing[cut] += static_cast<double>(plan_.values[v].bytes());
      }
    std::vector<size_t> segment(steps, 0);
    for (size_t k = 1; k < count; ++k) {
      const double aim = before[steps] * static_cast<double>(k) / static_cast<double>(count);
      const double near = before[steps] / static_cast<double>(3 * count);
      size_t best = 0;
      for (size_t cut = 1; cut < steps; ++cut)
        if (std::abs(before[cut] - aim) <= near && (best == 0 || crossing[cut] < crossing[best])) best = cut;
      for (size_t s = best; best > 0 && s < steps; ++s) ++segment[s];
    }
    return segment;
  }

  bool may_run_again(size_t s, const std::vector<size_t>& segment, bool products) const {
    static const std::set<std::string> of_products{"Conv",      "ConvTranspose", "Gemm", "MatMul",
                                                   "Attention", "LSTM",          "GRU",  "RNN"};
    const PlannedStep& step = plan_.steps[s];
    if (step.memory.must_in_place) return false;
    for (const Node& node : step.nodes)
      if ((!products && of_products.contains(node.op)) || (is_random(node.op) && node.op != "Dropout")) return false;
    for (const size_t v : step.outputs) {
      if (v == none || stays_.contains(v)) continue;
      for (const size_t reader : readers_[v])
        if (segment[reader] != segment[s]) return false;
    }
    return true;
  }

  // Whether backward, or a step that is computed again, reads what this step makes.
  bool is_needed(size_t s, const std::vector<bool>& again) const {
    const PlannedStep& step = plan_.steps[s];
    const auto reads = [](const std::optional<std::vector<bool>>& list, size_t i) { return !list || at(*list, i); };
    for (size_t o = 0; o < step.outputs.size(); ++o) {
      const size_t v = step.outputs[o];
      if (v == none || stays_.contains(v)) continue;
      if (step.backward && reads(step.memory.backward_outputs, o)) return true;
      for (const size_t reader : readers_[v]) {
        const PlannedStep& other = plan_.steps[reader];
        if (again[reader]) return true;
        for (size_t i = 0; i < other.inputs.size(); ++i)
          if (other.inputs[i] != none && plan_.root(other.inputs[i]) == v && other.backward &&
              reads(other.memory.backward_inputs, i))
            return true;
      }
    }
    return false;
  }

  const KernelPlan& plan_;
  std::vector<std::vector<size_t>> readers_;  // by root: steps
  std::set<size_t> stays_;                    // roots
  std::vector<double> made_;                  // by step: bytes of results
};

}  // namespace

KernelBuffers plan_buffers_within(const KernelPlan& plan, const CompileOptions& options,
                                  const std::vector<bool>& in_set, size_t bytes) {
  KernelBuffers best = plan_buffers(plan, options, in_set);
  size_t best_bytes = share_places(best, options.slots).bytes;
  if (best_bytes <= bytes || options.mode != Mode::training) return best;
  const Segments segments(plan, options);
  double best_cost = 0;
  for (const bool products : {false, true})
    for (const size_t count : {2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64}) {
      if (count > plan.steps.size()) break;
      const Recomputation again = segments.divided(count, products);
      if (!again.any()) continue;
      const double cost = segments.cost(again);
      if (best_bytes <= bytes && cost >= best_cost) continue;
      KernelBuffers tried = plan_buffers(plan, options, in_set, again);
      const size_t needed = share_places(tried, options.slots).bytes;
      if (best_bytes <= bytes ? needed > bytes : needed >= best_bytes) continue;
      best = std::move(tried);
      best_bytes = needed;
      best_cost = cost;
    }
  return best;
}

}  // namespace d5
