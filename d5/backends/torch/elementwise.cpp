// SPDX-License-Identifier: Apache-2.0
// Functions of single elements.
#include <ATen/core/Tensor.h>
#include <ATen/ops/add.h>
#include <ATen/ops/relu.h>

#include "d5/backends/torch/operator_table.hpp"

namespace d5::libtorch {
namespace {

Prepared add(const Setup&) {
  return {[](Inputs in, Outputs out) { out[0] = at::add(in[0], in[1]); }, "aten::add"};
}

}  // namespace
D5_TORCH_OPERATOR("Add", add);
D5_TORCH_OPERATOR("Relu",
                  [](const Setup&) { return elementwise([](const at::Tensor& x) { return at::relu(x); }, "relu"); });
}  // namespace d5::libtorch
