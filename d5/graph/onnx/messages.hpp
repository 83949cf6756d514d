// SPDX-License-Identifier: Apache-2.0
// The messages of onnx.proto. For this folder alone: nothing of it can be seen outside libd5.
#pragma once

#include "d5/graph/onnx/onnx.pb.h"

namespace d5 {

namespace pb = onnx_format;

}  // namespace d5
