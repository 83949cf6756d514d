// SPDX-License-Identifier: Apache-2.0
#include "d5/backends/reference/evaluating.hpp"

#include <algorithm>

namespace d5 {
namespace {

class EvaluatingExecutable final : public Executable {
 public:
  EvaluatingExecutable(const Graph& graph, ParameterSet& parameters, const CompileOptions& options)
      : graph_(graph), parameters_(parameters), evaluator_(graph_), slots_(options.slots) {}

  void forward(const Run& run) override {
    Slot& slot = this->slot(run.slot);
    auto inputs = slot.inputs;
    for (const GraphInput& input : graph_.inputs)
      if (input.parameter && parameters_.frozen() && parameters_.has(input.name)) {
        const auto& parameter = parameters_.at(input.name);
        if (!parameter.layout.empty() || parameters_.compute_dtype() != input.spec.dtype)
          throw Error("[reference] parameter '{}' is kept in layout '{}', which evaluation does not know", input.name,
                      parameter.layout);
        inputs.try_emplace(input.name,
                           parameters_.compute(input.name).slice(0, input.spec.elements()).reshaped(input.spec.shape));
      }
    EvaluateOptions& options = evaluator_.options();
    options.position = run.position;
    options.begin = options.end = {};
    if (run.observer) {
      options.begin = [&run](const Node& node) { run.observer->node_begin(node, Pass::forward); };
      options.end = [&run](const Node& node) { run.observer->node_end(node, Pass::forward); };
    }
    slot.outputs = evaluator_.run(inputs);
  }

  void backward(const Run&) override {
    throw Error("[reference] {}: shapes depend on values, so there is no backward", graph_.name);
  }

  void write(Role role, const std::string& name, const Tensor& canonical, int slot) override {
    if (role != Role::value) throw Error("[reference] '{}' has no gradient: the graph is evaluated", name);
    write_value(name, canonical, slot);
  }

  void write_value(const std::string& name, const GraphValue& value, int slot) override {
    for (const GraphInput& input : graph_.inputs) {
      if (input.name != name) continue;
      const bool fits = input.kind == ValueKind::other || value.kind == input.kind ||
                        (input.kind == ValueKind::optional && value.kind != ValueKind::other);
      if (!fits || (input.kind == ValueKind::tensor && value.tensor.dtype() != input.spec.dtype))
        throw Error("[reference] input '{}' is {}; {} was given", name, to_string(input.spec), to_string(value));
      this->slot(slot).inputs[name] = value;
      return;
    }
    throw Error("[reference] '{}' is no input", name);
  }

  Tensor read(Role role, const std::string& name, int slot) override {
    if (role != Role::value) throw Error("[reference] '{}' has no gradient: the graph is evaluated", name);
    return read_value(name, slot).as_tensor();
  }

  GraphValue read_value(const std::string& name, int slot) override {
    const Slot& from = this->slot(slot);
    const auto place = std::ranges::find(graph_.outputs, name);
    if (place == graph_.outputs.end()) {
      if (const auto input = from.inputs.find(name); input != from.inputs.end()) return input->second;
      throw Error("[reference] '{}' is no output; an evaluated graph keeps nothing else", name);
    }
    if (from.outputs.empty()) throw Error("[reference] '{}' is read before a forward pass", name);
    return from.outputs[static_cast<size_t>(place - graph_.outputs.begin())];
  }

  Tensor view(Role, const std::string&, int) override { return {}; }

  size_t bytes() const override {
    size_t total = 0;
    for (const Slot& slot : slots_) {
      for (const auto& [name, value] : slot.inputs) total += value.bytes();
      for (const GraphValue& value : slot.outputs) total += value.bytes();
    }
    return total;
  }

  Facts kernels() const override {
    Facts facts;
    for (const Node& node : graph_.nodes) facts.emplace_back(node.name, "reference:double");
    return facts;
  }

 private:
  struct Slot {
    std::map<std::string, GraphValue> inputs;
    std::vector<GraphValue> outputs;
  };
  Slot& slot(int number) {
    if (number < 0 || static_cast<size_t>(number) >= slots_.size())
      throw Error("[reference] slot {} was asked for; legal are 0 to {}", number, slots_.size() - 1);
    return slots_[static_cast<size_t>(number)];
  }

  Graph graph_;
  ParameterSet& parameters_;
  Evaluator evaluator_;
  std::vector<Slot> slots_;
};

}  // namespace

std::optional<std::string> why_not_evaluated(const Graph& graph, const CompileOptions& options,
                                             const std::string& why) {
  if (options.mode == Mode::training) return fmt::format("there is no gradient where a graph is evaluated: {}", why);
  if (options.device != "cpu") return fmt::format("reference runs on the cpu, not on '{}'", options.device);
  if (options.slots < 1) return fmt::format("{} slots were asked for; at least one is needed", options.slots);
  return unknown_operator(graph);
}

std::unique_ptr<Executable> compile_evaluation(const Graph& graph, ParameterSet& parameters,
                                               const CompileOptions& options) {
  return std::make_unique<EvaluatingExecutable>(graph, parameters, options);
}

}  // namespace d5
