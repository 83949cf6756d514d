// SPDX-License-Identifier: Apache-2.0
// One node run by a kernel of ours on somebody else's host buffers, row-major: how a framework with its own graph and
// autograd runs an operator that only we know. Its own function object holds one of these per shape.
//   HostNode node({.op = "SquaredRelu"}, {{DType::f32, {64, 1024}}}, {true});
//   node.forward({x}, {y});
//   node.backward({x}, {y}, {dy}, {dx});
#pragma once

#include "d5/backends/kernel.hpp"

namespace d5 {

class HostNode {
 public:
  using Pointers = std::vector<void*>;  // null where absent or not wanted

  // By the kernel of that name for `backend`, or else by the operator's own loops. Error where neither can.
  HostNode(const Node&, std::vector<TensorSpec> inputs, std::vector<bool> wants_gradient,
           const std::string& backend = "reference", const std::string& kernel = "builtin");

  const std::vector<TensorSpec>& outputs() const { return outputs_; }
  bool has_backward() const { return has_backward_; }
  std::string implementation() const { return kernel_->implementation(); }

  void forward(const Pointers& inputs, const Pointers& outputs, Position position = {});
  // After forward of the same inputs: writes (not adds) the wanted gradients.
  void backward(const Pointers& inputs, const Pointers& outputs, const Pointers& output_gradients,
                const Pointers& input_gradients);

 private:
  void bind(const Pointers& inputs, const Pointers& outputs, const Pointers& output_gradients,
            const Pointers& input_gradients);

  Node node_;
  CompileOptions options_;
  std::unique_ptr<Operator> op_;
  std::vector<TensorSpec> inputs_, outputs_;
  bool has_backward_ = false;
  std::unique_ptr<Kernel> kernel_;
  Tensor workspace_, scratch_;
  Position position_;
};

}  // namespace d5
