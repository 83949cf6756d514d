// SPDX-License-Identifier: Apache-2.0
// Which nodes are computed together. A kernel is offered the one reader of its result, again and again, for as long as
// it says that it computes it in the same call.
#include <algorithm>

#include "d5/backends/kernel_plan.hpp"

namespace d5 {

PlannedStep KernelPlan::single(size_t n) const {
  const Node& node = graph_.nodes[n];
  PlannedStep step{.shown = node,
                   .nodes = {node},
                   .members = {n},
                   .wants_gradient = flow_.by_input[n],
                   .arranges = !alone && options_.layout == LayoutChoice::fast && !row_major_.contains(n),
                   .op = make_operator(node)};
  for (const std::string& name : node.inputs) step.inputs.push_back(name.empty() ? none : find(name));
  for (const std::string& name : node.outputs) step.outputs.push_back(name.empty() ? none : find(name));
  step.backward = std::ranges::any_of(step.outputs, [&](size_t v) { return v != none && values[v].gradient; });
  return step;
}

// The node that reads the result of this step, where it alone does and nobody else wants the result.
std::optional<size_t> KernelPlan::next_member(const PlannedStep& step) const {
  const size_t result = step.outputs.empty() ? none : step.outputs[0];
  if (result == none || values[result].kept || uses_[result] != 1) return {};
  for (size_t n = step.members.back() + 1; n < graph_.nodes.size(); ++n) {
    const Node& node = graph_.nodes[n];
    if (std::ranges::find(node.inputs, values[result].name) == node.inputs.end()) continue;
    const auto given = std::ranges::count_if(node.outputs, [](const std::string& name) { return !name.empty(); });
    if (given != 1 || node.outputs[0].empty() || apart_.contains(n)) return {};
    return n;
  }
  return {};
}

// The step with one more member.
PlannedStep KernelPlan::joined(const PlannedStep& step, size_t n) const {
  const Node& node = graph_.nodes[n];
  PlannedStep longer{.shown = step.shown,
                     .nodes = step.nodes,
                     .members = step.members,
                     .inputs = step.inputs,
                     .outputs = step.outputs,
                     .follower_inputs = step.follower_inputs,
                     .wants_gradient = step.wants_gradient,
                     .arranges = step.arranges && !row_major_.contains(n),
                     .op = make_operator(step.nodes.front()),
                     .backward = step.backward};
  longer.shown.op += "+" + node.op;
  longer.shown.name += "+" + node.name;
  longer.shown.inputs.clear();
  longer.shown.attributes = {};
  longer.shown.outputs[0] = node.outputs[0];
  longer.nodes.push_back(node);
  longer.members.push_back(n);
  longer.follower_inputs.emplace_back();
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const size_t v = node.inputs[i].empty() ? none : find(node.inputs[i]);
    const size_t at = v == none ? Follower::absent : v == step.outputs[0] ? Follower::result : longer.inputs.size();
    longer.follower_inputs.back().push_back(at);
    if (at == Follower::absent || at == Follower::result) continue;
    longer.inputs.push_back(v);
    longer.wants_gradient.push_back(flow_.by_input[n][i]);
  }
  for (const size_t v : longer.inputs) longer.shown.inputs.push_back(v == none ? "" : values[v].name);
  longer.outputs[0] = find(node.outputs[0]);
  return longer;
}

void KernelPlan::form_steps() {
  steps.clear();
  std::vector<bool> taken(graph_.nodes.size(), false);
  for (size_t n = 0; n < graph_.nodes.size(); ++n) {
    if (taken[n]) continue;
    PlannedStep step = single(n);
    step.kernel = find_kernel_(graph_.nodes[n]);
    while (step.kernel && options_.fuse) {
      const auto next = next_member(step);
      if (!next || taken[*next]) break;
      PlannedStep longer = joined(step, *next);
      if (!step.kernel->fuses(setup(longer))) break;
      values[step.outputs[0]].inside = true;
      taken[*next] = true;
      longer.kernel = std::move(step.kernel);
      step = std::move(longer);
    }
    steps.push_back(std::move(step));
  }
  // Its last member has everything that the others need.
  std::ranges::stable_sort(steps, {}, [](const PlannedStep& step) { return step.members.back(); });
}

}  // namespace d5
