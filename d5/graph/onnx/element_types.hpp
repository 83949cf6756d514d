// SPDX-License-Identifier: Apache-2.0
// Element types as ONNX numbers them (TensorProto.DataType).
#pragma once

#include "d5/graph/graph.hpp"

namespace d5 {

DType element_type(int64_t code);  // CannotRun names one that is not here, Error where there is no such code
int element_code(DType);

}  // namespace d5
