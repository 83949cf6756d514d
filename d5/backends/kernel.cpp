// SPDX-License-Identifier: Apache-2.0
#include "d5/backends/kernel.hpp"

#include <fmt/ranges.h>

#include <algorithm>

namespace d5 {

AxisOrder channels_last_order(size_t rank) {
  if (rank < 3) return {};
  AxisOrder order{0};
  for (size_t axis = 2; axis < rank; ++axis) order.push_back(axis);
  order.push_back(1);
  return order;
}

bool same_places(const AxisOrder& a, const AxisOrder& b, const Shape& shape) {
  if (a == b) return true;
  const auto next = [&](const AxisOrder& order, size_t& i) {  // the next axis that has several elements
    for (; i < shape.rank(); ++i) {
      const size_t axis = order.empty() ? i : order[i];
      if (shape[axis] != 1) {
        ++i;
        return axis;
      }
    }
    return SIZE_MAX;
  };
  for (size_t i = 0, j = 0;;) {
    const size_t of_a = next(a, i), of_b = next(b, j);
    if (of_a != of_b) return false;
    if (of_a == SIZE_MAX) return true;
  }
}

Shape lying(const Shape& shape, const AxisOrder& order) {
  if (order.empty()) return shape;
  std::vector<Index> sizes;
  for (const size_t axis : order) sizes.push_back(shape[axis]);
  return Shape(std::move(sizes));
}

Shape with_samples(const Shape& shape, Index samples) {
  auto sizes = shape.sizes();
  sizes[0] = samples;
  return Shape(std::move(sizes));
}

bool KernelSetup::training() const { return options.mode == Mode::training; }

void Kernel::arrange(KernelSetup& setup) const {
  for (auto* orders : {&setup.input_orders, &setup.output_orders})
    for (AxisOrder& order : *orders) order.clear();
}

void Kernel::backward(int) { throw Error("[kernel] {} has no backward", implementation()); }

std::unique_ptr<Kernel> make_kernel(const std::string& backend, const std::string& op, const std::string& name) {
  for (const std::string& known : {op, std::string("*")})
    if (const auto* entry = find_registered<kernels>(backend + ":" + known + ":" + name)) return entry->make();
  return nullptr;
}

std::vector<std::string> kernel_names(const std::string& backend, const std::string& op) {
  std::vector<std::string> names;
  for (const std::string& entry : registry_names(kernels::kind))
    for (const std::string& known : {op, std::string("*")})
      if (const std::string prefix = backend + ":" + known + ":"; entry.starts_with(prefix))
        names.push_back(entry.substr(prefix.size()));
  return names;
}

FindKernel kernel_finder(const std::string& backend, const CompileOptions& options) {
  return [backend, name = options.kernel](const Node& node) {
    auto kernel = make_kernel(backend, node.op, name);
    return kernel ? std::move(kernel) : make_kernel(backend, node.op, "builtin");
  };
}

std::optional<std::string> why_not_named(const Graph& graph, const std::string& name, std::string_view backend) {
  if (name == "builtin") return {};
  std::vector<std::string> legal{"builtin"};
  for (const Node& node : graph.nodes) {
    const auto names = kernel_names(std::string(backend), node.op);
    if (std::ranges::find(names, name) != names.end()) return {};
    for (const std::string& one : names)
      if (std::ranges::find(legal, one) == legal.end()) legal.push_back(one);
  }
  const std::vector<std::string> all = registry_names(kernels::kind);
  if (std::ranges::any_of(all, [&](const std::string& one) { return one.ends_with(":" + name); }))
    return fmt::format("{} has no kernel '{}' for {}; it has: {}", backend, name, graph.name, fmt::join(legal, ", "));
  fail_unknown(fmt::format("[{}]", backend), fmt::format("kernel of {}", graph.name), name, legal);
}

}  // namespace d5
