// SPDX-License-Identifier: Apache-2.0
#include "d5/backends/kernel_plan.hpp"

#include <fmt/ranges.h>

#include <algorithm>

namespace d5 {

bool KernelSetup::training() const { return options.mode == Mode::training; }

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

FoundKernel find_kernel(const KernelSetup& setup, const FindKernel& find) {
  FoundKernel found{find(setup.node)};
  if (!found.kernel)
    found.reason = "no kernel for it";
  else
    found.reason = found.kernel->why_not(setup).value_or("");
  if (!found.reason.empty() && setup.options.fallback == Fallback::reference) {
    // The reference computes in double whatever the case asks for, so it is asked as if math were strict.
    found = {make_kernel("reference", setup.node.op, "builtin"), true, ""};
    found.reason = found.kernel->why_not(setup).value_or("");
  }
  return found;
}

KernelPlan::KernelPlan(const Graph& graph, const CompileOptions& options, const FindKernel& find) {
  for (const auto& [name, spec] : infer_specs(graph)) values[name].spec = spec;
  for (const GraphInput& input : graph.inputs) {
    values.at(input.name).parameter = input.parameter;
    values.at(input.name).differentiable = input.differentiable;
  }
  for (const auto& [name, tensor] : graph.constants) values.at(name).constant = true;
  for (const std::string& name : graph.outputs) {
    if (!values.contains(name)) throw Error("[graph] {}: output '{}' is made by no node", graph.name, name);
    values.at(name).output = true;
  }
  for (size_t n = 0; n < graph.nodes.size(); ++n)
    for (const std::string& name : graph.nodes[n].inputs)
      if (!name.empty()) values.at(name).readers.push_back(n);
  for (auto& [name, value] : values) value.plain = value.readers.size() > 1;

  nodes.resize(graph.nodes.size());
  for (size_t n = 0; n < nodes.size(); ++n) nodes[n].op = make_operator(graph.nodes[n]);
  find_gradients(graph, options);
  choose_kernels(graph, options, find);
  find_sparse_gradients(graph);
}

// A value has a gradient when something wanted lies behind it and an output before it.
void KernelPlan::find_gradients(const Graph& graph, const CompileOptions& options) {
  for (PlannedNode& node : nodes) node.wants_gradient.clear();
  std::map<std::string, bool> wanted;
  if (options.mode == Mode::training)
    for (const GraphInput& input : graph.inputs)
      wanted[input.name] = input.differentiable && is_float(input.spec.dtype) &&
                           (input.parameter ? options.parameter_gradients : options.input_gradients);
  for (const Node& node : graph.nodes) {
    const bool any = std::ranges::any_of(node.inputs, [&](const std::string& name) { return wanted[name]; });
    for (const std::string& name : node.outputs)
      if (!name.empty()) wanted[name] = any && is_float(values.at(name).spec.dtype);
  }
  for (auto& [name, value] : values) value.gradient = value.output && wanted[name];
  for (size_t n = nodes.size(); n-- > 0;) {
    const Node& node = graph.nodes[n];
    nodes[n].backward =
        std::ranges::any_of(node.outputs, [&](const std::string& o) { return !o.empty() && values.at(o).gradient; });
    for (const std::string& name : node.inputs) {
      const bool wants = nodes[n].backward && !name.empty() && wanted[name];
      nodes[n].wants_gradient.push_back(wants);
      if (wants) values.at(name).gradient = true;
    }
  }
}

KernelSetup KernelPlan::setup(const Graph& graph, const CompileOptions& options, size_t n) const {
  const Node& node = graph.nodes[n];
  KernelSetup setup{.node = node, .op = *nodes[n].op, .options = options, .wants_gradient = nodes[n].wants_gradient};
  for (const std::string& name : node.inputs) {
    const PlannedValue* value = name.empty() ? nullptr : &values.at(name);
    setup.inputs.push_back(value ? value->spec : TensorSpec::absent());
    setup.is_parameter.push_back(value && (value->parameter || value->constant));
    setup.plain_inputs.push_back(value && value->plain);
  }
  for (const std::string& name : node.outputs) {
    const PlannedValue* value = name.empty() ? nullptr : &values.at(name);
    setup.outputs.push_back(value ? value->spec : TensorSpec::absent());
    setup.plain_outputs.push_back(value && value->plain);
  }
  setup.input_layouts.resize(node.inputs.size());
  setup.input_gradient_layouts.resize(node.inputs.size());
  setup.output_layouts.resize(node.outputs.size());
  setup.output_gradient_layouts.resize(node.outputs.size());
  return setup;
}

void KernelPlan::choose_kernels(const Graph& graph, const CompileOptions& options, const FindKernel& find) {
  // Each round makes at least one more value row-major, so this ends.
  for (bool settled = false; !settled;) {
    std::vector<KernelSetup> setups;
    for (size_t n = 0; n < nodes.size(); ++n) {
      setups.push_back(setup(graph, options, n));
      FoundKernel found = find_kernel(setups.back(), find);
      if (!found.reason.empty())
        throw Error("[graph] {}: node '{}' ({}): {}", graph.name, graph.nodes[n].name, graph.nodes[n].op, found.reason);
      nodes[n].kernel = std::move(found.kernel);
      nodes[n].fallback = found.fallback;
      nodes[n].kernel->prepare(setups.back());
    }
    settled = agree_on_layouts(graph, setups);
  }
}

bool KernelPlan::agree_on_layouts(const Graph& graph, const std::vector<KernelSetup>& setups) {
  const auto same = [](const LayoutPtr& a, const LayoutPtr& b) { return (a ? a->name() : "") == (b ? b->name() : ""); };
  bool settled = true;
  std::map<std::string, bool> seen;
  const auto take = [&](const std::string& name, const LayoutPtr& layout, const LayoutPtr& gradient) {
    PlannedValue& value = values.at(name);
    const bool first = !seen[name];
    seen[name] = true;
    if (value.plain && (layout || gradient))
      throw Error("[kernel] value '{}' must be row-major, but a kernel has {} for it", name,
                  layout ? layout->name() : gradient->name());
    if (first) {
      value.layout = layout;
      value.gradient_layout = gradient;
    } else if (!same(value.layout, layout) || (value.gradient && !same(value.gradient_layout, gradient))) {
      value.plain = true;
      settled = false;
    }
    if (value.parameter && value.gradient && !same(value.layout, value.gradient_layout))
      throw Error("[kernel] the gradient of parameter '{}' has another layout than its value", name);
  };
  for (size_t n = 0; n < nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (!node.inputs[i].empty())
        take(node.inputs[i], setups[n].input_layouts[i], setups[n].input_gradient_layouts[i]);
    for (size_t i = 0; i < node.outputs.size(); ++i)
      if (!node.outputs[i].empty())
        take(node.outputs[i], setups[n].output_layouts[i], setups[n].output_gradient_layouts[i]);
  }
  return settled;
}

// Rows cannot be added to what another node contributes.
void KernelPlan::find_sparse_gradients(const Graph& graph) {
  for (size_t n = 0; n < nodes.size(); ++n)
    for (size_t i = 0; i < graph.nodes[n].inputs.size(); ++i) {
      if (!nodes[n].wants_gradient[i] || !nodes[n].kernel->has_sparse_gradient(i)) continue;
      PlannedValue& value = values.at(graph.nodes[n].inputs[i]);
      if (value.readers.size() > 1 || value.output)
        throw Error(
            "[graph] {}: the gradient of '{}' has rows of {} alone, but others contribute to it: no sparse gradients",
            graph.name, graph.nodes[n].inputs[i], graph.nodes[n].name);
      value.sparse = true;
    }
}

std::optional<std::string> why_not_kernels(const Graph& graph, const CompileOptions& options, const FindKernel& find,
                                           std::string_view backend) {
  if (options.device != "cpu") return fmt::format("{} runs on the cpu, not on '{}'", backend, options.device);
  if (!options.keep_denormals) return fmt::format("{} keeps denormals; it has no way to flush them", backend);
  if (options.slots < 1) return fmt::format("{} slots were asked for; at least one is needed", options.slots);
  if (options.kernel != "builtin")
    if (auto reason = why_not_named(graph, options.kernel, std::string(backend))) return reason;
  try {
    const KernelPlan plan(graph, options, find);
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace d5
