// SPDX-License-Identifier: Apache-2.0
// Parameters are initialisers of the session, because that is how the library's users have them: it folds them into
// each other and packs them for its kernels. So the session is made in the first forward after one was written. Inputs
// and outputs are tensors of ours, bound once: a run copies nothing.
#include "d5/backends/onnxruntime/executable.hpp"

#include <algorithm>
#include <cstdlib>

#include "d5/backends/onnxruntime/deviations.hpp"
#include "d5/backends/onnxruntime/library.hpp"
#include "d5/core/parallel.hpp"
#include "d5/graph/evaluate.hpp"
#include "d5/graph/onnx/write.hpp"

namespace d5::onnxruntime {
namespace {

const std::vector<std::pair<std::string, GraphOptimizationLevel>> optimization_levels = {
    {"none", ORT_DISABLE_ALL}, {"basic", ORT_ENABLE_BASIC}, {"extended", ORT_ENABLE_EXTENDED}, {"all", ORT_ENABLE_ALL}};

Owned<OrtSession> make_session(const Graph& graph, GraphOptimizationLevel level, const CompileOptions* options) {
  OrtSessionOptions* made = nullptr;
  check(api().CreateSessionOptions(&made));
  const Owned<OrtSessionOptions> session_options(made);
  check(api().SetSessionGraphOptimizationLevel(made, level));
  check(api().SetIntraOpNumThreads(made, threads()));
  check(api().SetInterOpNumThreads(made, 1));
  if (options && !options->keep_denormals)
    check(api().AddSessionConfigEntry(made, "session.set_denormal_as_zero", "1"));
  if (options) check(api().SetDeterministicCompute(made, options->deterministic));
  const std::string bytes = serialise_onnx(graph);
  OrtSession* session = nullptr;
  check(api().CreateSessionFromArray(&environment(), bytes.data(), bytes.size(), made, &session));
  return Owned<OrtSession>(session);
}

class OnnxRuntimeExecutable final : public Executable {
 public:
  OnnxRuntimeExecutable(const Graph& graph, ParameterSet& parameters, const CompileOptions& options)
      : graph_(graph), options_(options), parameters_(parameters), specs_(infer_specs(graph)) {
    const bool add = !parameters_.frozen();
    for (const GraphInput& input : graph_.inputs) {
      if (!input.parameter) continue;
      if (input.spec.dtype != DType::f32 && input.spec.dtype != parameters_.compute_dtype())
        own_parameters_[input.name] = Tensor(input.spec.dtype, input.spec.shape);
      else if (add)
        parameters_.add({.name = input.name, .spec = input.spec, .trainable = input.differentiable});
      else if (!parameters_.at(input.name).layout.empty())
        throw Error("[onnxruntime] parameter '{}' is in layout '{}' in the shared set; row-major is needed", input.name,
                    parameters_.at(input.name).layout);
    }
    if (add) parameters_.freeze();
    slots_.resize(static_cast<size_t>(options_.slots));
    for (Slot& slot : slots_) {
      for (const GraphInput& input : graph_.inputs)
        if (!input.parameter) slot.values[input.name] = zeros(input.spec);
      for (const std::string& name : graph_.outputs) slot.values[name] = zeros(specs_.at(name));
    }
  }

  void forward(const Run& run) override {
    Slot& slot = at(run.slot);
    if (!session_) start();
    if (!slot.binding) bind(slot);
    try {
      check(api().RunWithBinding(session_.get(), nullptr, slot.binding.get()));
    } catch (const Error& error) {  // some kernels look at their inputs only here
      throw CannotRun(error.what());
    }
  }

  void backward(const Run&) override { throw Error("[onnxruntime] it runs inference: there is no backward"); }

  void write(Role role, const std::string& name, const Tensor& canonical, int slot) override {
    const Tensor to = known(role, name, slot);
    if (canonical.dtype() != to.dtype() || !(canonical.shape() == to.shape()))
      throw Error("[executable] '{}' is {}; {} was given", name, to_string(TensorSpec{to.dtype(), to.shape()}),
                  to_string(TensorSpec{canonical.dtype(), canonical.shape()}));
    to.copy_from(canonical);
    if (!is_parameter(name)) return;
    if (parameters_.has(name) && parameters_.compute(name).data() != parameters_.master(name).data())
      parameters_.master(name).copy_from(canonical.cast(DType::f32).reshaped({canonical.elements()}));
    session_.reset();
    for (Slot& one : slots_) one.binding.reset();
  }

  Tensor read(Role role, const std::string& name, int slot) override { return known(role, name, slot).clone(); }
  Tensor view(Role role, const std::string& name, int slot) override { return known(role, name, slot); }

  size_t bytes() const override {
    size_t sum = 0;
    for (const Slot& slot : slots_)
      for (const auto& [name, tensor] : slot.values) sum += tensor.bytes();
    return sum;
  }

  Facts kernels() const override {
    Facts facts;
    for (const Node& node : graph_.nodes) facts.emplace_back(node.name, "onnxruntime cpu");
    return facts;
  }

 private:
  struct Slot {
    std::map<std::string, Tensor> values;  // data inputs and outputs
    std::vector<Owned<OrtValue>> bound;
    Owned<OrtIoBinding> binding;
  };

  static Tensor zeros(const TensorSpec& spec) {
    const Tensor tensor(spec.dtype, spec.shape);
    tensor.fill_bytes(0);
    return tensor;
  }

  Slot& at(int slot) {
    if (slot < 0 || slot >= options_.slots)
      throw Error("[executable] slot {} was asked for; legal are 0 to {}", slot, options_.slots - 1);
    return slots_[static_cast<size_t>(slot)];
  }

  bool is_parameter(const std::string& name) const {
    return std::ranges::any_of(graph_.inputs,
                               [&](const GraphInput& input) { return input.parameter && input.name == name; });
  }

  Tensor parameter(const std::string& name) const {
    if (const auto own = own_parameters_.find(name); own != own_parameters_.end()) return own->second;
    const TensorSpec& spec = parameters_.at(name).spec;
    return parameters_.compute(name).reshaped(spec.shape);
  }

  Tensor known(Role role, const std::string& name, int slot) {
    if (role == Role::gradient) throw Error("[onnxruntime] it runs inference: '{}' has no gradient", name);
    if (is_parameter(name)) return parameter(name);
    if (const auto constant = graph_.constants.find(name); constant != graph_.constants.end()) return constant->second;
    const auto& values = at(slot).values;
    if (const auto found = values.find(name); found != values.end()) return found->second;
    if (specs_.contains(name)) throw Error("[executable] '{}' is not kept: only inputs and outputs are", name);
    std::vector<std::string> legal;
    for (const auto& [known_name, tensor] : values) legal.push_back(known_name);
    fail_unknown("[executable]", "value", name, legal);
  }

  void start() {
    Graph with_weights = graph_;
    std::erase_if(with_weights.inputs, [](const GraphInput& input) { return input.parameter; });
    for (const GraphInput& input : graph_.inputs)
      if (input.parameter) with_weights.constants[input.name] = parameter(input.name);
    const std::string wanted = optimization();
    const auto level = std::ranges::find(optimization_levels, wanted, [](const auto& pair) { return pair.first; });
    session_ = make_session(with_weights, level->second, &options_);
  }

  void bind(Slot& slot) {
    OrtIoBinding* made = nullptr;
    check(api().CreateIoBinding(session_.get(), &made));
    slot.binding.reset(made);
    slot.bound.clear();
    for (const GraphInput& input : graph_.inputs) {
      if (input.parameter) continue;
      slot.bound.push_back(value_over(slot.values.at(input.name)));
      check(api().BindInput(made, input.name.c_str(), slot.bound.back().get()));
    }
    for (const std::string& name : graph_.outputs) {
      slot.bound.push_back(value_over(slot.values.at(name)));
      check(api().BindOutput(made, name.c_str(), slot.bound.back().get()));
    }
  }

  Graph graph_;
  CompileOptions options_;
  ParameterSet& parameters_;
  Specs specs_;
  std::map<std::string, Tensor> own_parameters_;  // of types that the set does not hold
  std::vector<Slot> slots_;
  Owned<OrtSession> session_;
};

}  // namespace

std::string optimization() {
  const char* given = std::getenv("D5_ONNXRUNTIME_OPTIMIZATION");
  if (!given || !*given) return "all";
  std::vector<std::string> legal;
  for (const auto& [name, level] : optimization_levels) legal.push_back(name);
  if (std::ranges::find(legal, given) == legal.end())
    fail_unknown("[onnxruntime]", "D5_ONNXRUNTIME_OPTIMIZATION", given, legal);
  return given;
}

std::optional<std::string> why_not_graph(const Graph& graph) {
  if (const auto reason = needs_evaluation(graph))
    return fmt::format("onnxruntime is given tensors alone: {}", *reason);
  try {
    const Specs specs = infer_specs(graph);
    for (const auto& [name, spec] : specs)
      if (element_type(spec.dtype) == ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED)
        return fmt::format("onnxruntime: value '{}' is {}, which is not handed over here", name, d5::name(spec.dtype));
    if (auto reason = deviation(graph, specs)) return reason;
    // Weights stay inputs here: whether there are kernels does not depend on them.
    make_session(graph, ORT_DISABLE_ALL, nullptr);
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

std::unique_ptr<Executable> make_executable(const Graph& graph, ParameterSet& parameters,
                                            const CompileOptions& options) {
  return std::make_unique<OnnxRuntimeExecutable>(graph, parameters, options);
}

}  // namespace d5::onnxruntime
