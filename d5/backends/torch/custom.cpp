// SPDX-License-Identifier: Apache-2.0
#include "d5/backends/torch/custom.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include "d5/backends/kernel.hpp"
#include "d5/backends/torch/library.hpp"
#include "d5/core/convert.hpp"
#include "d5/core/guard.hpp"

namespace d5::libtorch {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// One node on the host. Forward leaves what backward needs under a number; where another forward came in between (of
// another slot), the inputs are there to repeat it.
class HostNode {
 public:
  explicit HostNode(const Setup& setup) : inputs_(setup.inputs), outputs_(setup.outputs) {}
  virtual ~HostNode() = default;

  variable_list forward(const variable_list& inputs, const Position& position) {
    ++number_;
    load(inputs, position);
    compute();
    variable_list results;
    for (const TensorSpec& spec : outputs_)
      results.push_back(at::empty(spec.shape.sizes(), at::dtype(scalar_type(spec.dtype))));
    store(results);
    return results;
  }

  variable_list backward(int64_t number, const variable_list& inputs, const Position& position,
                         const variable_list& gradients) {
    if (number != number_) {
      number_ = number;
      load(inputs, position);
      compute();
    }
    return differentiate(gradients);
  }

  virtual std::string overrun() const { return {}; }
  int64_t number() const { return number_; }
  const std::vector<TensorSpec>& inputs() const { return inputs_; }

 protected:
  virtual void load(const variable_list& inputs, const Position&) = 0;  // absent ones are undefined
  virtual void compute() = 0;
  virtual void store(variable_list& outputs) = 0;
  virtual variable_list differentiate(const variable_list& output_gradients) = 0;  // undefined: none wanted

  std::vector<TensorSpec> inputs_, outputs_;

 private:
  int64_t number_ = 0;
};

class HostFunction : public torch::autograd::Function<HostFunction> {
 public:
  static variable_list forward(AutogradContext* context, int64_t node, int64_t step, int64_t first_sample,
                               at::TensorList present) {
    auto& host = *reinterpret_cast<HostNode*>(node);
    context->save_for_backward(present.vec());
    variable_list results =
        host.forward(spread(host, present.vec()), {static_cast<uint64_t>(step), static_cast<uint64_t>(first_sample)});
    context->saved_data["node"] = node;
    context->saved_data["number"] = host.number();
    context->saved_data["step"] = step;
    context->saved_data["first_sample"] = first_sample;
    return results;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    auto& host = *reinterpret_cast<HostNode*>(context->saved_data["node"].toInt());
    const Position position{static_cast<uint64_t>(context->saved_data["step"].toInt()),
                            static_cast<uint64_t>(context->saved_data["first_sample"].toInt())};
    const variable_list all = host.backward(context->saved_data["number"].toInt(),
                                            spread(host, context->get_saved_variables()), position, gradients);
    variable_list results(3);  // node, step, first_sample
    for (size_t i = 0; i < all.size(); ++i)
      if (host.inputs()[i].present) results.push_back(all[i]);
    return results;
  }

 private:
  static variable_list spread(const HostNode& host, const variable_list& present) {
    variable_list all;
    size_t next = 0;
    for (const TensorSpec& spec : host.inputs()) all.push_back(spec.present ? present[next++] : at::Tensor());
    return all;
  }
};

Custom run_on_host(const Setup& setup, std::shared_ptr<HostNode> node, std::string function) {
  if (!setup.device.is_cpu()) return {refuse("{} runs on the cpu, not on {}", function, setup.device.str())};
  Prepared prepared{[node, position = setup.position](Inputs in, Outputs out) {
                      variable_list present;
                      for (const at::Tensor& tensor : in)
                        if (tensor.defined()) present.push_back(tensor);
                      const auto results = HostFunction::apply(
                          reinterpret_cast<int64_t>(node.get()), static_cast<int64_t>(position->step),
                          static_cast<int64_t>(position->first_sample), at::TensorList(present));
                      for (size_t o = 0; o < out.size() && o < results.size(); ++o) out[o] = results[o];
                    },
                    std::move(function)};
  return {std::move(prepared), [node = std::move(node)] { return node->overrun(); }};
}

// An operator's own loops: values are widened to the type they compute in, results are rounded once.
class OperatorNode final : public HostNode {
 public:
  explicit OperatorNode(const Setup& setup) : HostNode(setup), op_(make_operator(setup.node)) {
    for (const TensorSpec& spec : setup.inputs) wanted_.push_back(spec.present && is_float(spec.dtype));
  }

 private:
  static Tensor wide(const at::Tensor& tensor, DType type) {
    const at::Tensor host = tensor.detach().contiguous();
    return Tensor::view(type, Shape(host.sizes().vec()), host.data_ptr()).cast(compute_dtype(type));
  }
  static at::Tensor narrow(const Tensor& tensor, DType type) {
    const Tensor own = tensor.cast(type);
    return wrap(own).clone();
  }

  void load(const variable_list& inputs, const Position& position) override {
    context_ = {};
    context_.position = position;
    for (size_t i = 0; i < inputs.size(); ++i) {
      context_.inputs.push_back(inputs[i].defined() ? wide(inputs[i], inputs_[i].dtype) : Tensor());
      context_.input_types.push_back(inputs_[i].dtype);
    }
    for (const TensorSpec& spec : outputs_)
      context_.outputs.push_back(spec.present ? Tensor(compute_dtype(spec.dtype), spec.shape) : Tensor());
  }
  void compute() override { op_->forward(context_); }
  void store(variable_list& outputs) override {
    for (size_t o = 0; o < outputs.size(); ++o)
      if (outputs_[o].present) outputs[o].copy_(narrow(context_.outputs[o], outputs_[o].dtype));
  }
  variable_list differentiate(const variable_list& gradients) override {
    context_.output_gradients.clear();
    context_.input_gradients.clear();
    for (size_t o = 0; o < outputs_.size(); ++o)
      context_.output_gradients.push_back(
          gradients[o].defined() && is_float(outputs_[o].dtype) ? wide(gradients[o], outputs_[o].dtype) : Tensor());
    for (size_t i = 0; i < inputs_.size(); ++i)
      context_.input_gradients.push_back(wanted_[i] ? Tensor(DType::f64, inputs_[i].shape) : Tensor());
    op_->backward(context_);
    variable_list results(inputs_.size());
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (wanted_[i]) results[i] = narrow(context_.input_gradients[i], inputs_[i].dtype);
    return results;
  }

  std::unique_ptr<Operator> op_;
  std::vector<bool> wanted_;
  Context context_;
};

// A kernel on buffers of its own, row-major as every tensor that others read too, with wide guards between them.
class KernelNode final : public HostNode {
 public:
  KernelNode(const Setup& setup, std::unique_ptr<Kernel> kernel)
      : HostNode(setup),
        kernel_(std::move(kernel)),
        node_(setup.node),
        op_(make_operator(node_)),
        options_(setup.options),
        setup_{node_, *op_, inputs_, outputs_, options_} {
    for (const TensorSpec& spec : inputs_)
      setup_.wants_gradient.push_back(setup.options.mode == Mode::training && spec.present && is_float(spec.dtype));
    options_.slots = 1;
    setup_.is_parameter.assign(inputs_.size(), false);
    setup_.plain_inputs.assign(inputs_.size(), true);
    setup_.plain_outputs.assign(outputs_.size(), true);
    setup_.input_layouts.resize(inputs_.size());
    setup_.input_gradient_layouts.resize(inputs_.size());
    setup_.output_layouts.resize(outputs_.size());
    setup_.output_gradient_layouts.resize(outputs_.size());
  }

  std::optional<std::string> why_not() const { return kernel_->why_not(setup_); }

  std::string start() {
    kernel_->prepare(setup_);
    Buffers buffers{.position = &position_};
    const auto make = [&](const std::vector<TensorSpec>& specs, const std::vector<std::string>& names,
                          const std::string& what, std::vector<at::Tensor>& tensors, std::vector<void*>& pointers,
                          const std::vector<bool>* wanted) {
      for (size_t i = 0; i < specs.size(); ++i) {
        const bool there = specs[i].present && (!wanted || (*wanted)[i]);
        pointers.push_back(there ? guarded(specs[i].dtype, specs[i].shape, what + names[i]) : nullptr);
        tensors.push_back(there ? wrap(guarded_.back().second) : at::Tensor());
      }
    };
    make(inputs_, node_.inputs, "", in_, buffers.inputs, nullptr);
    make(outputs_, node_.outputs, "", out_, buffers.outputs, nullptr);
    make(inputs_, node_.inputs, "gradient of ", in_gradients_, buffers.input_gradients, &setup_.wants_gradient);
    std::vector<bool> seeded;
    for (const TensorSpec& spec : outputs_) seeded.push_back(setup_.training() && is_float(spec.dtype));
    make(outputs_, node_.outputs, "gradient of ", out_gradients_, buffers.output_gradients, &seeded);
    const auto bytes = [&](size_t size, const char* what) {
      return guarded(DType::u8, {static_cast<Index>(std::max<size_t>(size, 1))}, what);
    };
    buffers.workspace = bytes(kernel_->workspace_bytes(), "its workspace");
    buffers.scratch = bytes(kernel_->scratch_bytes(), "its scratch");
    kernel_->bind(0, buffers);
    return kernel_->implementation();
  }

  std::string overrun() const override {
    for (const auto& [name, tensor] : guarded_)
      if (const std::string how = d5::overrun(tensor); !how.empty()) return fmt::format("{} of {}", how, name);
    return {};
  }

 private:
  void* guarded(DType type, const Shape& shape, const std::string& name) {
    guarded_.emplace_back(name, Tensor(type, shape, widely_guarded_memory()));
    guarded_.back().second.fill_bytes(0);
    return guarded_.back().second.data();
  }
  static void copy(const variable_list& from, const std::vector<at::Tensor>& to) {
    for (size_t i = 0; i < to.size(); ++i)
      if (to[i].defined() && from[i].defined()) to[i].copy_(from[i]);
  }
  void load(const variable_list& inputs, const Position& position) override {
    position_ = position;
    copy(inputs, in_);
  }
  void compute() override { kernel_->forward(0); }
  void store(variable_list& outputs) override { copy(out_, outputs); }
  variable_list differentiate(const variable_list& gradients) override {
    copy(gradients, out_gradients_);
    kernel_->backward(0);
    variable_list results(inputs_.size());
    for (size_t i = 0; i < results.size(); ++i)
      if (in_gradients_[i].defined()) results[i] = in_gradients_[i].clone();
    return results;
  }

  std::unique_ptr<Kernel> kernel_;
  Node node_;
  std::unique_ptr<Operator> op_;
  CompileOptions options_;
  KernelSetup setup_;
  Position position_;
  std::vector<at::Tensor> in_, out_, in_gradients_, out_gradients_;
  std::vector<std::pair<std::string, Tensor>> guarded_;  // what lies behind all of these, by its name
};

}  // namespace

Custom kernel_inside_autograd(const Setup& setup) {
  auto kernel = make_kernel("torch", setup.node.op, setup.options.kernel);
  if (!kernel) return {};
  auto node = std::make_shared<KernelNode>(setup, std::move(kernel));
  if (const auto reason = node->why_not()) return {refuse("{}", *reason)};
  const std::string implementation = node->start();
  return run_on_host(setup, node, implementation);
}

Custom operator_inside_autograd(const Setup& setup) {
  return run_on_host(setup, std::make_shared<OperatorNode>(setup), "fallback: reference:double");
}

}  // namespace d5::libtorch
