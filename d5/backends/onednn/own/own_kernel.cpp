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

void OwnKernel::prepare(KernelSetup& setup) {
  for (auto& walks : walks_) walks.clear();
  workspace_bytes_ = scratch_bytes_ = 0;
  known_.clear();
  if (results_are_known(setup)) {
    for (const TensorSpec& spec : setup.outputs) known_.push_back(spec.known);
    return;
  }
  build(setup);
  for (auto& walks : walks_)
    for (Traversal& walk : walks) {
      walk.prepare();
      need_scratch(walk.scratch_bytes());
    }
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
  for (const Traversal& walk : walks_[static_cast<size_t>(pass)]) walk.run(buffers);
}

Traversal& OwnKernel::add_walk(Pass pass, const Shape& space) {
  return walks_[static_cast<size_t>(pass)].emplace_back(space);
}

void OwnKernel::add_gradients(const KernelSetup& setup, const Shape& space, const std::vector<Gradient>& gradients) {
  std::optional<Traversal> shared;
  std::vector<Traversal> apart;
  for (const Gradient& gradient : gradients) {
    const Operand target = input_gradient(setup, gradient.input);
    const Index elements = target.shape.elements();
    const bool whole = elements == space.elements();
    const bool alone = !whole && elements > Traversal::most_partials;
    if (!alone && !shared) shared.emplace(space);
    Traversal& walk = alone ? apart.emplace_back(space) : *shared;
    if (whole)
      walk.write(target, gradient.chain(walk));
    else
      walk.reduce(target, gradient.chain(walk), Reduce::sum, {});
  }
  auto& walks = walks_[static_cast<size_t>(Pass::backward)];
  if (shared) walks.push_back(std::move(*shared));
  for (Traversal& walk : apart) walks.push_back(std::move(walk));
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
