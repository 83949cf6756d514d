// SPDX-License-Identifier: Apache-2.0
// The backend `reference`: any operator by its own loops. Inputs are widened to the type the loops compute in, results
// are rounded once to their own type. Slow and right; it uses one arithmetic and one layout. Where all shapes are known
// before the run it has buffers and gradients like the others; other graphs are evaluated (evaluating.hpp).
#include <algorithm>

#include "d5/backends/kernel.hpp"
#include "d5/backends/reference/evaluating.hpp"
#include "d5/core/convert.hpp"
#include "d5/core/guard.hpp"
#include "d5/core/parallel.hpp"

namespace d5 {
namespace {

class ReferenceKernel final : public Kernel {
 public:
  std::optional<std::string> why_not(const KernelSetup& setup) const override {
    for (const auto* specs : {&setup.inputs, &setup.outputs})
      for (const TensorSpec& spec : *specs)
        if (spec.present && spec.dtype == DType::string) return "strings cannot be computed with";
    const bool learns = std::ranges::find(setup.wants_gradient, true) != setup.wants_gradient.end();
    if (learns && !registered<operators>(setup.node.op).has_backward) return "it has no gradient";
    return {};
  }

  void prepare(KernelSetup& setup) override {
    op_ = make_operator(setup.node);
    name_ = setup.node.op;
    inputs_ = setup.inputs;
    outputs_ = setup.outputs;
    wants_gradient_ = setup.wants_gradient;
    contexts_.resize(setup.options.slots);
  }

  void bind(int binding, const Buffers& buffers) override {
    if (bindings_.size() <= static_cast<size_t>(binding)) bindings_.resize(binding + 1);
    Context& context = contexts_[buffers.slot];
    Binding& bound = bindings_[binding];
    bound.slot = buffers.slot;
    bound.position = buffers.position;
    if (context.inputs.empty()) {
      context.inputs = wide(inputs_);
      for (const TensorSpec& spec : inputs_) context.input_types.push_back(spec.dtype);
      context.outputs = wide(outputs_);
      context.output_gradients.resize(outputs_.size());
      context.input_gradients = wide(inputs_);
      for (size_t i = 0; i < inputs_.size(); ++i)
        if (!wants_gradient_[i]) context.input_gradients[i] = {};
    }
    for (size_t i = 0; i < outputs_.size(); ++i)
      if (buffers.output_gradients[i] && !context.output_gradients[i].present())
        context.output_gradients[i] = Tensor(compute_dtype(outputs_[i].dtype), outputs_[i].shape);
    bound.inputs = narrow(inputs_, buffers.inputs);
    bound.outputs = narrow(outputs_, buffers.outputs);
    bound.output_gradients = narrow(outputs_, buffers.output_gradients);
    bound.input_gradients = narrow(inputs_, buffers.input_gradients);
  }

  void forward(int binding) override {
    Binding& bound = bindings_[binding];
    Context& context = contexts_[bound.slot];
    copy(bound.inputs, context.inputs);
    context.position = *bound.position;
    op_->forward(context);
    refuse_overrun(context.outputs, "output");
    copy(context.outputs, bound.outputs);
  }

  void backward(int binding) override {
    Binding& bound = bindings_[binding];
    Context& context = contexts_[bound.slot];
    copy(bound.output_gradients, context.output_gradients);
    op_->backward(context);
    refuse_overrun(context.input_gradients, "the gradient of input");
    copy(context.input_gradients, bound.input_gradients);
  }

  std::string implementation() const override { return std::string(oracle_name); }

 private:
  struct Binding {
    int slot = 0;
    const Position* position = nullptr;
    std::vector<Tensor> inputs, outputs, input_gradients, output_gradients;
  };

  static std::vector<Tensor> wide(const std::vector<TensorSpec>& specs) {
    std::vector<Tensor> tensors;
    for (const TensorSpec& spec : specs) {
      tensors.push_back(spec.present ? Tensor(compute_dtype(spec.dtype), spec.shape, guarded_memory()) : Tensor());
      if (spec.present) tensors.back().fill_bytes(0xff);  // what an operator leaves out is seen
    }
    return tensors;
  }

  void refuse_overrun(const std::vector<Tensor>& tensors, const char* what) const {
    for (size_t i = 0; i < tensors.size(); ++i)
      if (const std::string how = overrun(tensors[i]); !how.empty())
        throw Error("[{}] wrote {} of {} {}", name_, how, what, i);
  }

  static std::vector<Tensor> narrow(const std::vector<TensorSpec>& specs, const std::vector<void*>& pointers) {
    std::vector<Tensor> tensors;
    for (size_t i = 0; i < specs.size(); ++i)
      tensors.push_back(pointers[i] ? Tensor::view(specs[i].dtype, specs[i].shape, pointers[i]) : Tensor());
    return tensors;
  }

  static void copy(const std::vector<Tensor>& from, const std::vector<Tensor>& to) {
    for (size_t i = 0; i < from.size() && i < to.size(); ++i) {
      if (!from[i].present() || !to[i].present()) continue;
      if (from[i].elements() != to[i].elements())
        throw Error("[reference] a result of {} came where {} was inferred", to_string(from[i].shape()),
                    to_string(to[i].shape()));
      convert(from[i].dtype(), from[i].data(), to[i].dtype(), to[i].data(), from[i].elements());
    }
  }

  std::unique_ptr<Operator> op_;
  std::string name_;
  std::vector<TensorSpec> inputs_, outputs_;
  std::vector<bool> wants_gradient_;
  std::vector<Context> contexts_;  // by slot
  std::vector<Binding> bindings_;
};

class ReferenceBackend final : public Backend {
 public:
  std::optional<std::string> why_not(const Graph& graph, const CompileOptions& options) const override {
    if (options.math != Math::strict) return "the reference has strict arithmetic only";
    if (options.sparse_gradients) return "the reference has dense gradients only";
    if (const auto reason = unknown_operator(graph)) return reason;
    if (const auto why = why_evaluated(graph)) return why_not_evaluated(graph, options, *why);
    return why_not_kernels(graph, options, kernel_finder("reference", options), "reference");
  }
  std::unique_ptr<Executable> compile(const Graph& graph, ParameterSet& parameters,
                                      const CompileOptions& options) override {
    if (why_evaluated(graph)) return compile_evaluation(graph, parameters, options);
    CompileOptions plain = options;
    if (plain.tile_cache == CompileOptions::cache_of_machine) plain.tile_cache = 0;  // nobody waits for the oracle
    return compile_kernels(graph, parameters, plain, kernel_finder("reference", plain));
  }
  Facts facts() const override {
    return {{"library", "libd5"},
            {"arithmetic", "double, integers in their own type"},
            {"threads", std::to_string(threads())}};
  }
};

}  // namespace
D5_REGISTER_KERNEL(reference, "*", "builtin", ReferenceKernel);
D5_REGISTER(backends, "reference", ReferenceBackend);
}  // namespace d5
