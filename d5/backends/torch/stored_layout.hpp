// SPDX-License-Identifier: Apache-2.0
// How LibTorch's parameters lie in a set: channels last, rows in the library's order (gates of recurrent cells), or
// both. Others convert by it: checkpoints, exports, executables of another backend.
#pragma once

#include <ATen/core/Tensor.h>

#include "d5/backends/torch/plan.hpp"
#include "d5/core/layout.hpp"

namespace d5::libtorch {

// From ONNX's order of rows to the library's, or back.
at::Tensor reordered_rows(const PlannedValue&, const at::Tensor&, bool to_library);
// Null where it lies as ONNX has it.
LayoutPtr stored_layout(const PlannedValue&, bool channels_last);

}  // namespace d5::libtorch
