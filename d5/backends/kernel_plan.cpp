// SPDX-License-Identifier: Apache-2.0
#include "d5/backends/kernel_plan.hpp"

#include <algorithm>

#include "d5/backends/piecewise.hpp"

namespace d5 {
namespace {

// Indices, shapes and masks that a network computes while it runs: loops are good enough for them.
bool computes_indices(const KernelSetup& setup) {
  constexpr Index few = 1 << 16;
  const auto small_and_whole = [](const TensorSpec& spec) {
    return !spec.present || (!is_float(spec.dtype) && spec.dtype != DType::string && spec.elements() <= few);
  };
  return setup.in_network && std::ranges::all_of(setup.inputs, small_and_whole) &&
         std::ranges::all_of(setup.outputs, small_and_whole);
}

}  // namespace

FoundKernel find_kernel(const KernelSetup& setup, const FindKernel& find) {
  FoundKernel found{find(setup.node)};
  if (!found.kernel)
    found.reason = "no kernel for it";
  else
    found.reason = found.kernel->why_not(setup).value_or("");
  if (found.reason.empty() || !setup.followers.empty()) return found;
  const bool indices = computes_indices(setup);
  if (indices || setup.options.fallback == Fallback::reference) {
    // The reference computes in double whatever the case asks for, so it is asked as if math were strict.
    found = {make_kernel("reference", setup.node.op, "builtin"), !indices, ""};
    found.reason = found.kernel->why_not(setup).value_or("");
  }
  return found;
}

KernelPlan::KernelPlan(const Graph& graph, const CompileOptions& options, const FindKernel& find)
    : alone(graph.nodes.size() == 1), graph_(graph), options_(options), find_kernel_(find) {
  specs_ = infer_specs(graph);
  flow_ = find_gradients(graph, specs_, [&](const GraphInput& input) {
    if (options.mode != Mode::training) return false;
    return input.parameter ? options.parameter_gradients : options.input_gradients;
  });
  // Where a step cannot run as planned, or a value is wanted in two layouts, the next round plans less: a follower
  // apart, a node or a value row-major. So this ends.
  for (bool settled = false; !settled;) {
    make_values();
    form_steps();
    choose_orders();
    find_readers();
    choose_tiles();
    settled = prepare_kernels();
  }
  find_sparse_gradients();
}

void KernelPlan::plan_less(const PlannedStep& step, const std::string& reason) {
  const Node& node = step.nodes.front();
  if (step.nodes.size() > 1)
    apart_.insert(step.members.back());
  else if (!step.is_conversion() && step.arranges)
    row_major_.insert(step.members.front());
  else
    throw Error("[graph] {}: node '{}' ({}): {}", graph_.name, node.name, node.op, reason);
}

size_t KernelPlan::find(const std::string& value) const {
  const auto found = index_.find(value);
  return found == index_.end() ? none : found->second;
}

size_t KernelPlan::add_value(PlannedValue value) {
  value.root = values.size();
  index_.try_emplace(value.name, values.size());
  values.push_back(std::move(value));
  return values.size() - 1;
}

void KernelPlan::make_values() {
  values.clear();
  reads_.clear();
  index_.clear();
  for (const auto& [name, spec] : specs_)
    add_value({.name = name,
               .spec = spec,
               .constant = graph_.constants.contains(name),
               .kept = options_.keeps(name),
               .gradient = flow_.has(name)});
  for (const GraphInput& input : graph_.inputs) {
    PlannedValue& value = values[find(input.name)];
    value.parameter = input.parameter;
    value.input = !input.parameter;
    value.differentiable = input.differentiable;
    value.kept = true;
  }
  for (const std::string& name : graph_.outputs) {
    if (find(name) == none) throw Error("[graph] {}: output '{}' is made by no node", graph_.name, name);
    values[find(name)].output = values[find(name)].kept = true;
  }
  uses_.assign(values.size(), 0);
  for (const Node& node : graph_.nodes)
    for (const std::string& name : node.inputs)
      if (!name.empty()) ++uses_[find(name)];
  for (size_t v = 0; v < values.size(); ++v)
    values[v].plain = uses_[v] > 1 || (!alone && !values[v].fixed()) || plain_.contains(values[v].name);
}

// By value: the steps that read it.
void KernelPlan::find_readers() {
  reads_.assign(values.size(), 0);
  for (PlannedValue& value : values) value.readers.clear();
  for (size_t s = 0; s < steps.size(); ++s)
    for (const size_t v : steps[s].inputs)
      if (v != none) {
        values[v].readers.push_back(s);
        ++reads_[root(v)];
      }
}

KernelSetup KernelPlan::setup(const PlannedStep& step) const {
  KernelSetup setup{.node = step.nodes.front(),
                    .op = *step.op,
                    .options = step.samples > 0 ? tile_options_ : options_,
                    .wants_gradient = step.wants_gradient,
                    .in_network = !alone};
  const auto describe = [&](size_t v, std::vector<TensorSpec>& specs, std::vector<bool>& plain,
                            std::vector<AxisOrder>& orders) {
    const PlannedValue* value = v == none ? nullptr : &values[v];
    specs.push_back(value ? value->spec : TensorSpec::absent());
    plain.push_back(value && value->plain);
    orders.push_back(value ? value->order : AxisOrder{});
    if (value && step.samples > 0 && !values[value->root].fixed()) {
      specs.back().shape = with_samples(value->spec.shape, step.samples);
      specs.back().known = nullptr;
    }
    if (!value || !step.is_conversion()) return;
    specs.back().shape = lying(specs.back().shape, value->order);  // a conversion sees bytes, not axes
    specs.back().known = nullptr;
    orders.back().clear();
  };
  for (const size_t v : step.inputs) {
    describe(v, setup.inputs, setup.plain_inputs, setup.input_orders);
    setup.is_parameter.push_back(v != none && values[root(v)].fixed());
    setup.shares_gradient.push_back(v != none && values[v].gradient && !reads_.empty() && reads_[root(v)] > 1);
  }
  for (const size_t v : step.outputs) describe(v, setup.outputs, setup.plain_outputs, setup.output_orders);
  for (size_t f = 1; f < step.nodes.size(); ++f)
    setup.followers.push_back({step.nodes[f], step.follower_inputs[f - 1]});
  if (!step.outputs.empty() && step.outputs[0] != none)
    setup.contributions = reads_.empty() ? 1 : reads_[step.outputs[0]] + (values[step.outputs[0]].output ? 1 : 0);
  setup.input_layouts.resize(step.inputs.size());
  setup.input_gradient_layouts.resize(step.inputs.size());
  setup.output_layouts.resize(step.outputs.size());
  setup.output_gradient_layouts.resize(step.outputs.size());
  return setup;
}

bool KernelPlan::prepare_kernels() {
  // By root: the last step that reads it.
  std::vector<size_t> last(values.size(), none);
  std::vector<bool> stays(values.size(), false);
  for (size_t v = 0; v < values.size(); ++v) {
    const PlannedValue& value = values[v];
    if (value.kept || value.fixed() || value.input) stays[value.root] = true;
    for (const size_t s : value.readers)
      last[value.root] = last[value.root] == none ? s : std::max(last[value.root], s);
  }
  std::vector<KernelSetup> setups;
  for (size_t s = 0; s < steps.size(); ++s) {
    PlannedStep& step = steps[s];
    setups.push_back(setup(step));
    KernelSetup& asked = setups.back();
    for (const size_t v : step.inputs) {
      const auto twice = [&](size_t other) { return other != none && root(other) == root(v); };
      const size_t result = step.outputs[0];
      const bool apart =
          step.samples > 0 && v != none && (values[v].tiles == 1 || result == none || values[result].tiles == 1);
      asked.dies.push_back(v != none && !apart && options_.mode == Mode::inference && !stays[root(v)] &&
                           last[root(v)] == s && std::ranges::count_if(step.inputs, twice) == 1);
    }
    FoundKernel found = find_kernel(asked, find_kernel_);
    if (!found.reason.empty()) {
      plan_less(step, found.reason);
      return false;
    }
    step.kernel = std::move(found.kernel);
    step.fallback = found.fallback;
    step.kernel->prepare(asked);
    step.memory = asked.memory;
  }
  return agree_on_layouts(setups);
}

bool KernelPlan::agree_on_layouts(const std::vector<KernelSetup>& setups) {
  const auto same = [](const LayoutPtr& a, const LayoutPtr& b) { return (a ? a->name() : "") == (b ? b->name() : ""); };
  bool settled = true;
  std::vector<bool> seen(values.size(), false);
  const auto take = [&](size_t v, const LayoutPtr& layout, const LayoutPtr& gradient) {
    if (v == none) return;
    PlannedValue& value = values[v];
    if (value.plain && (layout || gradient))
      throw Error("[kernel] value '{}' must be row-major, but a kernel has {} for it", value.name,
                  layout ? layout->name() : gradient->name());
    if (!seen[v]) {
      value.layout = layout;
      value.gradient_layout = gradient;
    } else if (!same(value.layout, layout) || (value.gradient && !same(value.gradient_layout, gradient))) {
      plain_.insert(value.name);
      settled = false;
    }
    seen[v] = true;
    if (value.parameter && value.gradient && !same(value.layout, value.gradient_layout))
      throw Error("[kernel] the gradient of parameter '{}' has another layout than its value", value.name);
  };
  for (size_t s = 0; s < steps.size(); ++s) {
    for (size_t i = 0; i < steps[s].inputs.size(); ++i)
      take(steps[s].inputs[i], setups[s].input_layouts[i], setups[s].input_gradient_layouts[i]);
    for (size_t i = 0; i < steps[s].outputs.size(); ++i)
      take(steps[s].outputs[i], setups[s].output_layouts[i], setups[s].output_gradient_layouts[i]);
  }
  for (PlannedValue& value : values)
    if (!value.order.empty()) value.layout = value.gradient_layout = order_layout(value.spec, value.order);
  return settled;
}

// Rows cannot be added to what another node contributes.
void KernelPlan::find_sparse_gradients() {
  for (const PlannedStep& step : steps)
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      if (!step.wants_gradient[i] || !step.kernel->has_sparse_gradient(i)) continue;
      PlannedValue& value = values[step.inputs[i]];
      if (value.readers.size() > 1 || value.output)
        throw Error(
            "[graph] {}: the gradient of '{}' has rows of {} alone, but others contribute to it: no sparse gradients",
            graph_.name, value.name, step.shown.name);
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
    const JoinedPieces joined = join_pieces(graph, options);
    const KernelPlan plan(joined.graph, joined.options, piecewise_finder(find, joined.pieces));
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace d5
