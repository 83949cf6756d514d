// SPDX-License-Identifier: Apache-2.0
// Where things lie: data inputs, seeds and constants in tensors of the executable, one per slot; parameters in the
// ParameterSet (from_blob, no copy); results wherever the library allocates them in each step, as in its users'
// programs. The gradients of parameters come out of autograd in tensors of their own and are copied into the set: one
// read and one write of their bytes per backward. CompileOptions::gradients_in_set = false spares that.
#include "d5/backends/torch/executable.hpp"

#include <ATen/SequenceNumber.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "d5/backends/keeps_values.hpp"
#include "d5/backends/kernel.hpp"
#include "d5/backends/torch/account.hpp"
#include "d5/backends/torch/library.hpp"
#include "d5/backends/torch/observed.hpp"
#include "d5/backends/torch/plan.hpp"
#include "d5/backends/torch/stored_layout.hpp"

namespace d5::libtorch {
namespace {

struct Slot {
  std::vector<at::Tensor> values, gradients;  // by number of the value
  std::vector<bool> seeded;                   // by number of the value
  std::vector<NodeRange> ranges;              // by node: what of the autograd graph belongs to it
  std::shared_ptr<BackwardEvents> events;     // where this forward's graph is observed
};

Convolutions convolutions_of(const Graph& graph, const Plan& plan, const CompileOptions& options, at::Device device) {
  Convolutions found;
  if (!device.is_cuda()) return found;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (graph.nodes[n].op != "Conv" && graph.nodes[n].op != "ConvTranspose") continue;
    const DType dtype = plan.values[plan.nodes[n].inputs.front()].spec.dtype;
    found.any = true;
    found.direct |= options.math == Math::strict && bits(dtype) >= 32;
    found.bf16 |= dtype == DType::bf16;
  }
  return found;
}

class TorchExecutable final : public Executable, public KeepsValues {
 public:
  TorchExecutable(const Graph& graph, ParameterSet& parameters, const CompileOptions& options, at::Device device)
      : graph_(graph),
        options_(options),
        device_(device),
        plan_(graph_, options_, device, &position_),
        switches_{options.math, options.deterministic, convolutions_of(graph_, plan_, options, device)},
        parameters_(parameters),
        in_set_(plan_.values.size()),
        account_{graph.name, device.is_cpu() ? options.memory_limit : 0} {
    const c10::DeviceGuard guard(device_);
    const Accounting accounting(account_);
    join_parameters();
    for (int slot = 0; slot < options_.slots; ++slot) slots_.push_back(make_slot(slot));
    for (const auto& [name, tensor] : graph_.constants)
      for (int slot = 0; slot < options_.slots; ++slot) write(Role::value, name, tensor, slot);
  }

  void forward(const Run& run) override try {
    Slot& slot = at(run.slot);
    const c10::DeviceGuard guard(device_);
    const Accounting accounting(account_);
    use(switches_);
    position_ = run.position;
    slot.events.reset();
    if (options_.mode == Mode::training) {
      const at::AutoGradMode gradients(true);
      run_nodes(slot, run.observer);
    } else {
      const c10::InferenceMode inference;
      run_nodes(slot, run.observer);
    }
  } catch (const c10::Error& error) {
    throw Error("[torch] {}: LibTorch: {}", graph_.name, first_line(error));
  }

  // The graph is kept where backward may be called again; gradients are written, not accumulated.
  void backward(const Run& run) override try {
    Slot& slot = at(run.slot);
    if (options_.mode != Mode::training) throw Error("[executable] compiled for inference: there is no backward");
    const c10::DeviceGuard guard(device_);
    const Accounting accounting(account_);
    use(switches_);
    if (!run.observer && !run.add_gradients && !options_.gradients_in_set) forget_gradients(slot);
    roots_.clear();
    seeds_.clear();
    const bool any_seed = std::ranges::find(slot.seeded, true) != slot.seeded.end();
    for (const int o : outputs_)
      if (slot.values[o].requires_grad() && (slot.seeded[o] || !any_seed)) {
        roots_.push_back(slot.values[o]);
        seeds_.push_back(slot.gradients[o]);
      }
    if (run.observer) observe(slot, run);
    std::vector<at::Tensor> results(leaves_.size());
    if (!roots_.empty() && !leaves_.empty()) {
      leaf_values_.clear();
      for (const int i : leaves_) leaf_values_.push_back(slot.values[i]);
      const bool again = options_.backward_again || graph_.nodes.size() == 1;
      results = torch::autograd::grad(roots_, leaf_values_, seeds_, /*retain_graph=*/again, /*create_graph=*/false,
                                      /*allow_unused=*/true);
    }
    kept_.clear();
    made_.clear();
    for (size_t i = 0; i < leaves_.size(); ++i) {
      const int leaf = leaves_[i];
      if (in_set_[leaf] && results[i].defined()) {
        if (run.observer) continue;  // kept already
        if (options_.gradients_in_set && !run.add_gradients) {
          kept_.push_back(slot.gradients[leaf]);
          made_.push_back(std::move(results[i]));
          continue;
        }
      }
      keep(slot, leaf, std::move(results[i]), run.add_gradients, options_.gradients_in_set);
    }
    copy_made();
    if (run.observer) slot.events->end();
  } catch (const c10::Error& error) {
    throw Error("[torch] {}: LibTorch: {}", graph_.name, first_line(error));
  }

  void write(Role role, const std::string& name, const Tensor& canonical, int slot_number) override {
    Slot& slot = at(slot_number);
    const int i = known(role, name);
    const PlannedValue& value = plan_.values[i];
    if (canonical.dtype() != value.spec.dtype || !(canonical.shape() == value.spec.shape))
      throw Error("[executable] '{}' is {}; {} was given", name, to_string(value.spec),
                  to_string(TensorSpec{canonical.dtype(), canonical.shape()}));
    const c10::DeviceGuard guard(device_);
    const at::NoGradGuard no_gradients;
    const at::Tensor from = reordered_rows(value, wrap(canonical), true);
    if (role == Role::gradient) {
      if (value.output) slot.seeded[i] = true;
      at::Tensor& to = slot.gradients[i];
      if (!value.output && !in_set_[i]) to = empty(value, value.spec.dtype);  // a result may share the library's bytes
      to.copy_(from);
    } else if (value.input || value.constant) {
      slot.values[i].copy_(from);
      if (in_set_[i] && parameters_.compute(name).data() != parameters_.master(name).data())
        wrap(parameters_.master(name).data(), DType::f32, value.spec.shape, device_, value.channels_last).copy_(from);
    } else {
      slot.values[i] = empty(value, value.spec.dtype).copy_(from);  // may have been a view of an input
    }
  }

  Tensor read(Role role, const std::string& name, int slot_number) override {
    Slot& slot = at(slot_number);
    const int i = known(role, name);
    const PlannedValue& value = plan_.values[i];
    const Tensor canonical(value.spec.dtype, value.spec.shape);
    const c10::DeviceGuard guard(device_);
    const c10::InferenceMode inference;
    wrap(canonical).copy_(reordered_rows(value, role == Role::gradient ? slot.gradients[i] : slot.values[i], false));
    return canonical;
  }

  // Inputs, parameters and seeds stay where they are; a result has a new place in every step, so there is no view.
  Tensor view(Role role, const std::string& name, int slot_number) override {
    Slot& slot = at(slot_number);
    const int i = known(role, name);
    const PlannedValue& value = plan_.values[i];
    const bool gradient = role == Role::gradient;
    const bool stays = gradient ? value.output || in_set_[i] : value.input || value.constant;
    const at::Tensor& tensor = gradient ? slot.gradients[i] : slot.values[i];
    if (!stays || !tensor.is_contiguous() || !value.rows.order.empty()) return {};
    const DType type = gradient && in_set_[i] ? parameters_.compute_dtype() : value.spec.dtype;
    return Tensor::view(type, value.spec.shape, tensor.data_ptr(), std::make_shared<at::Tensor>(tensor),
                        memory_of(device_));
  }

  // Not through the parameters themselves: autograd would take it for a change of what backward still reads.
  void keep_values(std::span<const std::pair<std::string, std::string>> pairs, int slot_number) override try {
    Slot& slot = at(slot_number);
    const c10::DeviceGuard guard(device_);
    kept_.clear();
    made_.clear();
    for (const auto& [parameter, name] : pairs) {
      const int to = plan_.number(parameter), from = known(Role::value, name);
      kept_.push_back(slot.values[to].variable_data());
      made_.push_back(slot.values[from]);
      if (!in_set_[to] || parameters_.compute(parameter).data() == parameters_.master(parameter).data()) continue;
      const PlannedValue& value = plan_.values[to];
      kept_.push_back(wrap(parameters_.master(parameter).data(), DType::f32, value.spec.shape, device_,
                           stored_channels_last(value)));
      made_.push_back(slot.values[from]);
    }
    copy_made();
  } catch (const c10::Error& error) {
    throw Error("[torch] {}: LibTorch: {}", graph_.name, first_line(error));
  }

  // The most that was allocated at once beside the set, activations included: on the host by this executable, on a
  // device in this process.
  size_t bytes() const override {
    if (!device_.is_cpu()) {
      const auto stats = at::getDeviceAllocator(device_.type())->getDeviceStats(device_.index());
      const size_t most = static_cast<size_t>(stats.allocated_bytes[0].peak);
      return most - std::min(most, static_cast<size_t>(parameters_.elements()) * 2 * sizeof(float));
    }
    return account_.peak;
  }

  std::string narrow_arithmetic(Pass pass) const override {
    for (const PlannedNode& node : plan_.nodes)
      if (const auto& why = pass == Pass::forward ? node.prepared.narrow_forward : node.prepared.narrow_backward;
          !why.empty())
        return why;
    return "";
  }

  std::string overrun() const override {
    for (size_t n = 0; n < plan_.nodes.size(); ++n)
      if (const PlannedNode& node = plan_.nodes[n]; node.overrun)
        if (const std::string how = node.overrun(); !how.empty())
          return fmt::format("{} ({}) wrote {}", graph_.nodes[n].name, node.prepared.function, how);
    return {};
  }

  Facts kernels() const override {
    Facts facts;
    for (size_t n = 0; n < plan_.nodes.size(); ++n) {
      const auto& outputs = plan_.nodes[n].outputs;
      const bool last =
          std::ranges::any_of(plan_.nodes[n].inputs, [&](int i) { return i >= 0 && plan_.values[i].channels_last; });
      facts.emplace_back(graph_.nodes[n].name,
                         plan_.nodes[n].prepared.function + (last && !outputs.empty() ? " channels_last" : ""));
    }
    return facts;
  }

 private:
  Slot& at(int slot) {
    if (slot < 0 || slot >= options_.slots)
      throw Error("[executable] slot {} was asked for; legal are 0 to {}", slot, options_.slots - 1);
    return slots_[slot];
  }

  int known(Role role, const std::string& name) const {
    const int i = plan_.number(name);
    const PlannedValue& value = plan_.values[i];
    if (!value.kept()) throw Error("[executable] '{}' is not kept: eager torch frees what nobody needs any more", name);
    if (role == Role::gradient && !value.gradient)
      throw Error("[executable] '{}' has no gradient in this plan: not asked for, or no output depends on it", name);
    return i;
  }

  // Fast layouts keep inputs as channels last from the start, unless reorders are to be timed.
  bool stored_channels_last(const PlannedValue& value) const { return value.channels_last && !options_.time_reorders; }

  at::Tensor empty(const PlannedValue& value, DType type) const {
    const auto options = at::dtype(scalar_type(type)).device(device_);
    at::Tensor tensor = at::zeros(value.spec.shape.sizes(), options);
    return stored_channels_last(value) ? tensor.contiguous(channels_last_format(value.spec.shape.rank())) : tensor;
  }

  void join_parameters() {
    const bool add = !parameters_.frozen();
    for (const int i : plan_.parameters(graph_)) {
      const PlannedValue& value = plan_.values[i];
      const DType type = value.spec.dtype;
      if (type != DType::f32 && type != parameters_.compute_dtype()) continue;
      in_set_[i] = true;
      const std::string layout = stored_channels_last(value) ? "channels_last" : value.rows.name;
      if (add) {
        parameters_.add({.name = value.name,
                         .spec = value.spec,
                         .layout = layout,
                         .native = stored_layout(value, stored_channels_last(value)),
                         .trainable = value.differentiable});
      } else if (const auto& shared = parameters_.at(value.name);
                 shared.layout != layout || !(shared.spec.shape == value.spec.shape)) {
        throw Error("[executable] parameter '{}' is {} in layout '{}' here, but {} in layout '{}' in the shared set",
                    value.name, to_string(value.spec), layout, to_string(shared.spec), shared.layout);
      }
    }
    if (add) parameters_.freeze();
    const std::string where = memory_of(device_).device();
    if (const std::string& there = parameters_.masters(parameters_.all()).memory().device(); there != where)
      throw Error("[executable] the parameters lie on {}, the executable runs on {}", there, where);
    for (size_t i = 0; i < plan_.values.size(); ++i) {
      if (plan_.values[i].output && plan_.values[i].gradient) outputs_.push_back(static_cast<int>(i));
      if (plan_.values[i].input && plan_.values[i].gradient) leaves_.push_back(static_cast<int>(i));
    }
  }

  Slot make_slot(int number) {
    Slot slot;
    slot.values.resize(plan_.values.size());
    slot.gradients.resize(plan_.values.size());
    slot.seeded.resize(plan_.values.size());
    slot.ranges.resize(plan_.nodes.size());
    for (size_t i = 0; i < plan_.values.size(); ++i) {
      const PlannedValue& value = plan_.values[i];
      if (!value.input && !value.constant && !value.output) continue;  // made by a node, new in every step
      if (number > 0 && value.parameter) {
        slot.values[i] = slots_[0].values[i];
        slot.gradients[i] = slots_[0].gradients[i];
        continue;
      }
      const bool last = stored_channels_last(value);
      slot.values[i] =
          in_set_[i] ? wrap(parameters_.compute(value.name).data(), value.spec.dtype, value.spec.shape, device_, last)
                     : empty(value, value.spec.dtype);
      if (!value.gradient) continue;
      if (value.input) slot.values[i].set_requires_grad(true);
      slot.gradients[i] = in_set_[i] ? wrap(parameters_.gradient(value.name).data(), parameters_.compute_dtype(),
                                            value.spec.shape, device_, last)
                                     : empty(value, value.spec.dtype);
    }
    return slot;
  }

  void run_nodes(Slot& slot, Observer* observer) {
    for (size_t n = 0; n < plan_.nodes.size(); ++n) {
      const PlannedNode& node = plan_.nodes[n];
      if (observer) observer->node_begin(graph_.nodes[n], Pass::forward);
      slot.ranges[n].first = at::sequence_number::peek();
      inputs_.clear();
      for (const int i : node.inputs) inputs_.push_back(i < 0 ? at::Tensor() : reordered(i, slot.values[i]));
      results_.assign(node.outputs.size(), at::Tensor());
      node.prepared.compute(inputs_, results_);
      for (size_t o = 0; o < node.outputs.size(); ++o) {
        const int value = node.outputs[o];
        if (value < 0) continue;
        at::Tensor& result = results_[o];
        slot.values[value] =
            options_.time_reorders && plan_.values[value].output ? result.contiguous() : std::move(result);
      }
      slot.ranges[n].last = at::sequence_number::peek();
      for (const int i : node.dies) slot.values[i] = at::Tensor();
      if (observer) observer->node_end(graph_.nodes[n], Pass::forward);
    }
    inputs_.clear();
    results_.clear();
  }

  at::Tensor reordered(int i, const at::Tensor& tensor) const {
    const PlannedValue& value = plan_.values[i];
    if (!options_.time_reorders || !value.channels_last || !value.input) return tensor;
    return tensor.contiguous(channels_last_format(value.spec.shape.rank()));
  }

  // All of them in one call: on a device one kernel instead of one for each.
  void copy_made() {
    const at::NoGradGuard no_gradients;
    if (!kept_.empty()) at::_foreach_copy_(kept_, made_);
    kept_.clear();
    made_.clear();
  }

  // A finished gradient of an input, to where it belongs.
  void keep(Slot& slot, int i, at::Tensor result, bool add, bool into_set) {
    const at::NoGradGuard no_gradients;
    const bool adds = add && plan_.values[i].parameter;
    at::Tensor& place = slot.gradients[i];
    if (!place.defined() && (!result.defined() || into_set)) place = empty(plan_.values[i], plan_.values[i].spec.dtype);
    if (!result.defined()) {
      if (!adds) in_set_[i] ? place.zero_() : place = at::zeros_like(place);
    } else if (in_set_[i] && (into_set || adds)) {
      adds ? place.add_(result) : place.copy_(result);
    } else {
      place = adds ? place.add(result) : std::move(result);
    }
    if (plan_.values[i].parameter)
      for (Slot& other : slots_) other.gradients[i] = place;
  }

  // Those of the step before, where they are the library's own: as a user's program drops them before backward.
  void forget_gradients(Slot& slot) {
    for (const int i : leaves_)
      if (plan_.values[i].parameter && slots_.size() == 1) slot.gradients[i] = at::Tensor();
  }

  // Nodes are told apart by the numbers that autograd gives to its functions; gradients of parameters are kept as soon
  // as they are final.
  void observe(Slot& slot, const Run& run) {
    if (!slot.events) {
      slot.events = std::make_shared<BackwardEvents>(graph_, slot.ranges);
      slot.events->watch(roots_);
      for (const int i : leaves_)
        if (in_set_[i]) {
          const Gradient gradient{parameters_.at(plan_.values[i].name).name, parameters_.range(plan_.values[i].name)};
          slot.events->watch_leaf(slot.values[i], gradient, [this, &slot, i](const at::Tensor& result, bool add) {
            keep(slot, i, result, add, true);
          });
        }
    }
    slot.events->begin(run.observer, run.add_gradients);
  }

  Graph graph_;
  CompileOptions options_;
  at::Device device_;
  Position position_;
  Plan plan_;
  Switches switches_;
  ParameterSet& parameters_;
  std::vector<bool> in_set_;           // by number of the value
  std::vector<int> outputs_, leaves_;  // with gradients
  std::vector<Slot> slots_;
  Account account_;
  std::vector<at::Tensor> inputs_, results_, roots_, seeds_, leaf_values_, kept_, made_;  // of the call under way
};

}  // namespace

namespace {

// ATen has no list of what its functions take, so types beside f32 and f64 are tried on zeros where that is quick. What
// else may go wrong with zeros (a division by one) is no reason.
std::optional<std::string> refusal(const Graph& graph, const CompileOptions& options, at::Device device) {
  constexpr double quick_bytes = 64 << 20;
  double bytes = 0;
  bool usual = true;
  for (const auto& [name, spec] : infer_specs(graph)) {
    bytes += spec.bytes();
    usual = usual && (spec.dtype == DType::f32 || spec.dtype == DType::f64);
  }
  if (usual || bytes > quick_bytes) return {};
  try {
    ParameterSet parameters(DType::f32, memory_of(device));
    TorchExecutable trial(graph, parameters, options, device);
    for (const GraphInput& input : graph.inputs)
      if (input.spec.known) trial.write(Executable::Role::value, input.name, *input.spec.known, 0);
    trial.forward({});
    if (options.mode == Mode::training) trial.backward({});
  } catch (const Error& error) {
    const std::string what = error.what();
    for (const char* sign : {"not implemented", "not support", "nsupported", "INTERNAL ASSERT FAILED"})
      if (what.find(sign) != std::string::npos) return what;
  }
  return {};
}

}  // namespace

std::optional<std::string> why_not_graph(const Graph& graph, const CompileOptions& options, at::Device device) {
  if (options.kernel != "builtin" && std::ranges::none_of(graph.nodes, [&](const Node& node) {
        return make_kernel("torch", node.op, options.kernel) != nullptr;
      }))
    return fmt::format("no node has a kernel named '{}' in torch", options.kernel);
  try {
    const Position position;
    const Plan plan(graph, options, device, &position);
    if (auto reason = why_not_convolutions(convolutions_of(graph, plan, options, device))) return reason;
    return refusal(graph, options, device);
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    return error.what();
  }
}

std::unique_ptr<Executable> make_executable(const Graph& graph, ParameterSet& parameters, const CompileOptions& options,
                                            at::Device device) {
  return std::make_unique<TorchExecutable>(graph, parameters, options, device);
}

}  // namespace d5::libtorch
