// SPDX-License-Identifier: Apache-2.0
// Attributes that name an element type: to, dtype, output_dtype. ONNX writes the number of TensorProto.DataType there;
// on the command line it is a name, "bf16".
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "d5/core/attributes.hpp"
#include "d5/core/dtype.hpp"

namespace d5 {

// Empty: ONNX has no such number, or it is one that no tensor here can have (complex).
std::optional<DType> type_of_onnx(int64_t number);
int64_t onnx_number(DType);

// UsageError where the attribute is neither. Empty: it is not there, or is 0, ONNX's "undefined".
std::optional<DType> type_attribute(const Attributes&, const std::string& name, std::string_view place);

}  // namespace d5
