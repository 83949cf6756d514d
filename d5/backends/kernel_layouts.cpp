// SPDX-License-Identifier: Apache-2.0
// How values lie in a network. From the first step to the last, each kernel is told how its inputs lie and says how it
// wants them and how it leaves its outputs. A value that is wanted in another order is converted once, by the backend's
// Transpose, whose gradient converts the gradient back. Outputs of the graph are row-major.
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "d5/backends/kernel_plan.hpp"

namespace d5 {
namespace {

size_t position(const AxisOrder& order, size_t axis) {
  if (order.empty()) return axis;
  return static_cast<size_t>(std::ranges::find(order, axis) - order.begin());
}

class OrderLayout final : public Layout {
 public:
  OrderLayout(const TensorSpec& spec, const AxisOrder& order)
      : spec_(spec), name_(fmt::format("{}:{}", to_string(spec), to_string(order))) {
    const auto dense = lying(spec.shape, order).strides();
    for (size_t axis = 0; axis < spec.shape.rank(); ++axis) strides_.push_back(dense[position(order, axis)]);
  }
  size_t bytes() const override { return static_cast<size_t>(spec_.bytes()); }
  std::string name() const override { return name_; }
  void from_plain(const Tensor& plain, void* native) const override {
    copy([&](char* at_plain, char* at_native, size_t size) { std::memcpy(at_native, at_plain, size); }, plain.data(),
         native);
  }
  void to_plain(const void* native, const Tensor& plain) const override {
    copy([&](char* at_plain, char* at_native, size_t size) { std::memcpy(at_plain, at_native, size); }, plain.data(),
         const_cast<void*>(native));
  }

 private:
  template <class F>
  void copy(const F& f, void* plain, void* native) const {
    const auto size = static_cast<size_t>(bits(spec_.dtype)) / 8;
    std::vector<Index> at(spec_.shape.rank(), 0);
    for (Index i = 0; i < spec_.elements(); ++i) {
      Index offset = 0;
      for (size_t axis = 0; axis < at.size(); ++axis) offset += at[axis] * strides_[axis];
      f(static_cast<char*>(plain) + static_cast<size_t>(i) * size,
        static_cast<char*>(native) + static_cast<size_t>(offset) * size, size);
      for (size_t axis = at.size(); axis-- > 0 && ++at[axis] == spec_.shape[axis];) at[axis] = 0;
    }
  }

  TensorSpec spec_;
  std::string name_;
  std::vector<Index> strides_;
};

}  // namespace

LayoutPtr order_layout(const TensorSpec& spec, const AxisOrder& order) {
  return std::make_shared<OrderLayout>(spec, order);
}

std::string to_string(const AxisOrder& order) {
  if (order.empty()) return "row-major";
  if (order == channels_last_order(order.size())) return "channels last";
  return fmt::format("{}", fmt::join(order, ","));
}

// The bytes of one value moved to those of another that is the same but for its order.
PlannedStep KernelPlan::conversion(size_t from, size_t to) const {
  const PlannedValue &source = values[from], &target = values[to];
  std::vector<int64_t> perm;
  for (size_t i = 0; i < source.spec.shape.rank(); ++i)
    perm.push_back(static_cast<int64_t>(position(source.order, target.order.empty() ? i : target.order[i])));
  Node node{.op = "Transpose",
            .name = fmt::format("{} to {}", source.name, to_string(target.order)),
            .inputs = {source.name},
            .outputs = {target.name},
            .attributes = {{"perm", perm}}};
  return {.shown = node,
          .nodes = {node},
          .inputs = {from},
          .outputs = {to},
          .wants_gradient = {target.gradient},
          .arranges = false,
          .op = make_operator(node),
          .backward = target.gradient};
}

size_t KernelPlan::converted(size_t v, const AxisOrder& order, std::vector<PlannedStep>& before) {
  const auto [known, is_new] = copies_.try_emplace({v, order}, none);
  if (!is_new) return known->second;
  const size_t to = known->second = add_value({.name = fmt::format("{} ({})", values[v].name, to_string(order)),
                                               .spec = values[v].spec,
                                               .gradient = values[v].gradient,
                                               .plain = true,
                                               .order = order});
  before.push_back(conversion(v, to));
  return to;
}

// A product may write its result as the Transpose behind it would leave it.
std::vector<AxisOrder> KernelPlan::output_wishes(const PlannedStep& step) const {
  std::vector<AxisOrder> wishes(step.outputs.size());
  for (size_t o = 0; o < step.outputs.size(); ++o) {
    const size_t v = step.outputs[o];
    if (v == none || values[v].kept || uses_[v] != 1) continue;
    for (size_t n = step.members.back() + 1; n < graph_.nodes.size(); ++n) {
      const Node& reader = graph_.nodes[n];
      if (std::ranges::find(reader.inputs, values[v].name) == reader.inputs.end()) continue;
      const auto perm = reader.attributes.integers("perm");
      if (reader.op == "Transpose" && !perm.empty()) wishes[o] = AxisOrder(perm.begin(), perm.end());
      break;
    }
  }
  return wishes;
}

// What is read or seeded from outside keeps its own bytes, unless they are those of a value between.
bool KernelPlan::may_be_view(const PlannedStep& step, const AxisOrder& order) const {
  const PlannedValue& view = values[step.outputs[0]];
  if (!view.kept) return true;
  const PlannedValue& bytes = values[root(step.inputs[0])];
  return options_.mode == Mode::inference && !bytes.fixed() && !bytes.kept &&
         (!view.output || same_places(order, {}, view.spec.shape));
}

void KernelPlan::choose_orders() {
  copies_.clear();
  std::vector<PlannedStep> arranged;
  std::vector<size_t> stands_for(values.size());  // outputs of the graph that are made in another order first
  for (size_t v = 0; v < values.size(); ++v) stands_for[v] = v;
  for (PlannedStep& step : steps) {
    for (size_t& v : step.inputs)
      if (v != none) v = stands_for[v];
    KernelSetup asked = setup(step);
    asked.output_orders = output_wishes(step);
    const bool arranges = step.arranges && step.kernel;
    if (arranges) step.kernel->arrange(asked);
    const bool view = asked.is_view && may_be_view(step, asked.output_orders[0]);
    if (!arranges || (asked.is_view && !view)) {
      asked.input_orders.assign(step.inputs.size(), {});
      asked.output_orders.assign(step.outputs.size(), {});
    }
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const size_t v = step.inputs[i];
      if (v != none && !same_places(values[v].order, asked.input_orders[i], values[v].spec.shape))
        step.inputs[i] = converted(v, asked.input_orders[i], arranged);
    }
    if (view) {
      PlannedValue& seen = values[step.outputs[0]];
      seen.root = root(step.inputs[0]);
      values[seen.root].plain = true;
      if (!same_places(asked.output_orders[0], {}, seen.spec.shape)) seen.order = asked.output_orders[0];
      continue;
    }
    std::vector<PlannedStep> after;
    for (size_t o = 0; o < step.outputs.size(); ++o) {
      const size_t v = step.outputs[o];
      if (v == none) continue;
      const AxisOrder& order = asked.output_orders[o];
      if (same_places(order, {}, values[v].spec.shape)) continue;
      if (!values[v].output) {
        values[v].order = order;
        continue;
      }
      // Everyone inside reads what the kernel made; the output is a conversion of it.
      const size_t made = add_value({.name = fmt::format("{} ({})", values[v].name, to_string(order)),
                                     .spec = values[v].spec,
                                     .kept = values[v].gradient && uses_[v] > 0,
                                     .gradient = values[v].gradient,
                                     .plain = true,
                                     .order = order});
      values[v].made_as = made;
      stands_for[v] = step.outputs[o] = made;
      after.push_back(conversion(made, v));
    }
    arranged.push_back(std::move(step));
    for (PlannedStep& one : after) arranged.push_back(std::move(one));
  }
  steps = std::move(arranged);
}

}  // namespace d5
