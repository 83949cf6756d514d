// SPDX-License-Identifier: Apache-2.0
// What is not ATen's, inside torch's own autograd: a user's Kernel registered for this backend
// (D5_REGISTER_KERNEL(torch, "Conv", "mine", MyConv)), and any Operator by its own loops in double. Both see row-major
// host memory and run on the CPU. Tensors are copied to the buffers a kernel was bound to and back.
#pragma once

#include "d5/backends/torch/operator_table.hpp"

namespace d5::libtorch {

struct Custom {
  Prepared prepared;
  std::function<std::string()> overrun = {};  // how it ran over an end of a buffer; empty: it did not
};
Custom kernel_inside_autograd(const Setup&);  // without compute where there is no such kernel
Custom operator_inside_autograd(const Setup&);

}  // namespace d5::libtorch
