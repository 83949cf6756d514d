// SPDX-License-Identifier: Apache-2.0
// Values in files of their own (input_0.pb, output_0.pb): the inputs and outputs of tests.
#pragma once

#include <filesystem>

#include "d5/graph/value.hpp"

namespace d5 {

// A tensor, a sequence or an optional, as `kind` says: the file itself does not. Error names the file and the reason;
// CannotRun where it holds what cannot be run here (maps, sparse tensors, complex numbers).
GraphValue read_onnx_value(const std::filesystem::path&, ValueKind kind);
void write_onnx_value(const GraphValue&, const std::filesystem::path&);

}  // namespace d5
