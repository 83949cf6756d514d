// SPDX-License-Identifier: Apache-2.0
#include "d5/backends/onednn/own/own_kernel.hpp"

#include <algorithm>
#include <cstring>

namespace d5::onednn::own {

namespace {

bool results_are_known(const KernelSetup& setup) {
  if (std::ranges::any_of(setup.wants_gradient, [](bool wanted) { return wanted; })) return false;
  return !setup.outputs.empty() && std::ranges::all_of(setup.outputs, [](const TensorSpec& spec) {
    return !spec.present || (spec.known && spec.dtype != DType::string);
  });
}

// The known value as it lies in this order.
std::shared_ptr<const Tensor> lying(const TensorSpec& spec, const AxisOrder& order) {
  if (!spec.known || same_places(order, {}, spec.shape)) return spec.known;
  auto result = std::make_shared<Tensor>(spec.dtype, spec.shape);
  order_layout(spec, order)->from_plain(*spec.known, result->data());
  return result;
}

Shape with_rank(const Shape& shape, size_t rank) {
  std::vector<Index> sizes(rank - std::min(rank, shape.rank()), 1);
  sizes.insert(sizes.end(), shape.begin(), shape.end());
  return Shape(std::move(sizes));
}

// The same node on tensors whose axes are those of memory.
KernelSetup lying(const KernelSetup& setup) {
  KernelSetup seen = setup;
  const AxisOrder order = OwnKernel::lying_order(setup);
  const auto turn = [&](std::vector<TensorSpec>& specs, const std::vector<AxisOrder>& orders) {
    for (size_t i = 0; i < specs.size() && i < orders.size(); ++i) {
      if (order.empty() || !specs[i].present) continue;
      const Shape shape = with_rank(specs[i].shape, setup.outputs[0].shape.rank());
      specs[i].shape = d5::lying(shape, order);
      specs[i].known = nullptr;
    }
  };
  turn(seen.inputs, setup.input_orders);
  turn(seen.outputs, setup.output_orders);
  return seen;
}

}  // namespace

std::optional<std::string> OwnKernel::why_not(const KernelSetup& setup) const {
  if (results_are_known(setup)) return {};
  if (setup.options.math == Math::winograd) return "only convolutions have a Winograd form";
  return cannot(setup);
}

std::optional<std::string> OwnKernel::wrong_type(const TensorSpec& spec) {
  if (!spec.present || is_tile_type(spec.dtype)) return {};
  return fmt::format("its kernel computes in f32, bf16, f16 and bool, not in {}", name(spec.dtype));
}

std::optional<std::string> OwnKernel::cannot(const KernelSetup& setup) const {
  for (const auto* specs : {&setup.inputs, &setup.outputs})
    for (const TensorSpec& spec : *specs)
      if (auto reason = wrong_type(spec)) return reason;
  return {};
}

void OwnKernel::arrange(KernelSetup& setup) const {
  const size_t rank = setup.outputs[0].shape.rank();
  AxisOrder order;
  Index most = 0;
  for (size_t i = 0; i < setup.inputs.size() && follows_orders(); ++i)
    if (setup.inputs[i].shape.rank() == rank && !setup.input_orders[i].empty() && setup.inputs[i].elements() > most) {
      order = setup.input_orders[i];
      most = setup.inputs[i].elements();
    }
  // One of fewer axes is broadcast over the first ones; it must lie that way as it is.
  for (const TensorSpec& spec : setup.inputs)
    if (spec.present && spec.shape.rank() < rank && !same_places(order, {}, with_rank(spec.shape, rank))) order.clear();
  for (size_t i = 0; i < setup.inputs.size(); ++i)
    setup.input_orders[i] = setup.inputs[i].shape.rank() == rank ? order : AxisOrder{};
  for (size_t i = 0; i < setup.outputs.size(); ++i)
    setup.output_orders[i] = setup.outputs[i].shape.rank() == rank ? order : AxisOrder{};
}

void OwnKernel::prepare(KernelSetup& setup) {
  forward_walks_.clear();
  backward_walks_.clear();
  memory_ = {};
  workspace_bytes_ = scratch_bytes_ = 0;
  known_.clear();
  if (results_are_known(setup)) {
    for (size_t i = 0; i < setup.outputs.size(); ++i) known_.push_back(lying(setup.outputs[i], setup.output_order(i)));
    return;
  }
  build(knows_orders() ? setup : lying(setup));
  const auto prepare_all = [&](std::vector<Traversal>& walks) {
    for (Traversal& walk : walks) {
      walk.prepare();
      need_scratch(walk.scratch_bytes());
    }
  };
  prepare_all(forward_walks_);
  for (auto& walks : backward_walks_) prepare_all(walks);
  if (!setup.in_network) return;
  find_memory(setup);
  setup.memory = memory_;
}

void OwnKernel::find_memory(const KernelSetup& setup) {
  if (forward_walks_.size() != 1) return;
  memory_.in_place.resize(setup.inputs.size());
  for (size_t i = 0; i < setup.inputs.size(); ++i)
    memory_.in_place[i] = forward_walks_[0].works_in_place(Part::input, i);
  const auto anyone_reads = [&](Part part, size_t i) {
    for (const auto& walks : backward_walks_)
      for (const Traversal& walk : walks)
        if (walk.reads(part, i)) return true;
    return false;
  };
  memory_.backward_inputs.emplace();
  for (size_t i = 0; i < setup.inputs.size(); ++i) memory_.backward_inputs->push_back(anyone_reads(Part::input, i));
  memory_.backward_outputs.emplace();
  for (size_t i = 0; i < setup.outputs.size(); ++i) memory_.backward_outputs->push_back(anyone_reads(Part::output, i));
  const bool one = !backward_walks_.empty() && std::ranges::all_of(backward_walks_, [](const auto& walks) {
    return walks.size() == 1 && walks[0].works_in_place(Part::output_gradient, 0);
  });
  memory_.gradient_in_place.assign(setup.inputs.size(), one);  // there is one target
}

AxisOrder OwnKernel::lying_order(const KernelSetup& setup) {
  for (const auto* orders : {&setup.output_orders, &setup.input_orders})
    for (const AxisOrder& order : *orders)
      if (!order.empty()) return order;
  return {};
}

size_t OwnKernel::lying_axis(const KernelSetup& setup, size_t axis) {
  const AxisOrder order = lying_order(setup);
  return order.empty() ? axis : static_cast<size_t>(std::ranges::find(order, axis) - order.begin());
}

void OwnKernel::bind(int binding, const Buffers& buffers) {
  if (bound_.size() <= static_cast<size_t>(binding)) bound_.resize(binding + 1);
  bound_[binding] = buffers;
}

void OwnKernel::forward(int binding) {
  if (known_.empty()) return run(Pass::forward, bound_[binding]);
  for (size_t i = 0; i < known_.size(); ++i)
    if (known_[i]) std::memcpy(bound_[binding].outputs[i], known_[i]->data(), known_[i]->bytes());
}

void OwnKernel::run(Pass pass, const Buffers& buffers) {
  const auto& walks = pass == Pass::forward ? forward_walks_ : backward_walks_[buffers.more_gradients.size()];
  for (const Traversal& walk : walks) walk.run(buffers);
}

Traversal& OwnKernel::add_walk(Pass pass, const Shape& space) {
  if (pass == Pass::forward) return forward_walks_.emplace_back(space);
  backward_walks_.resize(1);
  return backward_walks_[0].emplace_back(space);
}

void OwnKernel::add_gradients(const KernelSetup& setup, const Shape& space, const std::vector<Gradient>& gradients) {
  constexpr size_t most_summands = 4;
  if (gradients.empty()) {
    memory_.most_contributions = SIZE_MAX;
    return;
  }
  memory_.most_contributions = setup.in_network ? std::clamp<size_t>(setup.contributions, 1, most_summands) : 1;
  for (size_t n = 1; n <= memory_.most_contributions; ++n)
    backward_walks_.push_back(add_gradients(setup, space, gradients, n));
}

std::vector<Traversal> OwnKernel::add_gradients(const KernelSetup& setup, const Shape& space,
                                                const std::vector<Gradient>& gradients, size_t summands) {
  const auto whole_chain = [&](Traversal& walk, const Gradient& gradient) {
    const Operand whole = output_gradient(setup, 0);
    size_t dy = walk.read(whole);
    std::vector<Link> chain;
    for (size_t i = 0; i + 1 < summands; ++i) {
      const Operand more{Part::more_gradient, i, whole.type, whole.shape};
      chain.push_back({functions("Add").value, {dy, walk.read(more)}});
      dy = Link::previous;
    }
    for (Link& link : gradient.chain(walk, dy)) chain.push_back(std::move(link));
    return chain;
  };
  std::optional<Traversal> shared;
  std::vector<Traversal> walks;
  for (const Gradient& gradient : gradients) {
    const Operand target = input_gradient(setup, gradient.input);
    const Index elements = target.shape.elements();
    const bool whole = elements == space.elements();
    const bool alone = !whole && elements > Traversal::most_partials;
    if (!alone && !shared) shared.emplace(space);
    Traversal& walk = alone ? walks.emplace_back(space) : *shared;
    if (whole)
      walk.write(target, whole_chain(walk, gradient));
    else
      walk.reduce(target, whole_chain(walk, gradient), Reduce::sum, {});
  }
  if (shared) walks.insert(walks.begin(), std::move(*shared));
  return walks;
}

size_t OwnKernel::need_workspace(size_t bytes) {
  const size_t offset = workspace_bytes_;
  workspace_bytes_ += aligned_bytes(bytes);
  return offset;
}

const TileFunctions& functions(std::string_view op) {
  if (const TileFunctions* found = find_functions(op)) return *found;
  throw Error("[onednn] no function named '{}'", op);
}

}  // namespace d5::onednn::own
