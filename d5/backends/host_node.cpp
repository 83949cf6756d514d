// SPDX-License-Identifier: Apache-2.0
#include "d5/backends/host_node.hpp"

#include <algorithm>

namespace d5 {

HostNode::HostNode(const Node& node, std::vector<TensorSpec> inputs, std::vector<bool> wants_gradient,
                   const std::string& backend, const std::string& kernel)
    : node_(node), op_(make_operator(node)), inputs_(std::move(inputs)) {
  wants_gradient.resize(inputs_.size());
  has_backward_ = registered<operators>(node.op).has_backward;
  const bool training = std::ranges::find(wants_gradient, true) != wants_gradient.end();
  if (training && !has_backward_) throw Error("[{}] has no gradient", node.op);
  options_.mode = training ? Mode::training : Mode::inference;
  options_.input_gradients = training;
  options_.layout = LayoutChoice::plain;
  options_.kernel = kernel;
  outputs_ = op_->infer(inputs_);

  KernelSetup setup{.node = node_,
                    .op = *op_,
                    .inputs = inputs_,
                    .outputs = outputs_,
                    .options = options_,
                    .wants_gradient = std::move(wants_gradient)};
  const size_t in = inputs_.size(), out = outputs_.size();
  setup.is_parameter.assign(in, false);
  setup.plain_inputs.assign(in, true);
  setup.plain_outputs.assign(out, true);
  setup.input_layouts.resize(in);
  setup.input_gradient_layouts.resize(in);
  setup.output_layouts.resize(out);
  setup.output_gradient_layouts.resize(out);
  kernel_ = make_kernel(backend, node.op, kernel);
  if (!kernel_) kernel_ = make_kernel("reference", node.op, "builtin");
  if (const auto reason = kernel_->why_not(setup)) throw Error("[{}] {}", node.op, *reason);
  kernel_->prepare(setup);
  workspace_ = Tensor(DType::u8, {static_cast<Index>(kernel_->workspace_bytes())});
  scratch_ = Tensor(DType::u8, {static_cast<Index>(kernel_->scratch_bytes())});
}

void HostNode::bind(const Pointers& inputs, const Pointers& outputs, const Pointers& output_gradients,
                    const Pointers& input_gradients) {
  const auto padded = [](Pointers pointers, size_t count) {
    pointers.resize(count, nullptr);
    return pointers;
  };
  kernel_->bind(0, {.slot = 0,
                    .inputs = padded(inputs, inputs_.size()),
                    .outputs = padded(outputs, outputs_.size()),
                    .input_gradients = padded(input_gradients, inputs_.size()),
                    .output_gradients = padded(output_gradients, outputs_.size()),
                    .workspace = workspace_.data(),
                    .scratch = scratch_.data(),
                    .position = &position_});
}

void HostNode::forward(const Pointers& inputs, const Pointers& outputs, Position position) {
  position_ = position;
  bind(inputs, outputs, {}, {});
  kernel_->forward(0);
}

void HostNode::backward(const Pointers& inputs, const Pointers& outputs, const Pointers& output_gradients,
                        const Pointers& input_gradients) {
  bind(inputs, outputs, output_gradients, input_gradients);
  kernel_->backward(0);
}

}  // namespace d5
