// SPDX-License-Identifier: Apache-2.0
// Tensors of ONNX messages: raw bytes (little-endian), typed lists, or a part of another file.
#pragma once

#include <filesystem>

#include "d5/core/tensor.hpp"
#include "d5/graph/onnx/messages.hpp"

namespace d5 {

// Takes the elements out of the message (large ones are moved, not copied). What stays in it is what the file says
// beyond them: `raw_data` that is there and empty tells that the elements were raw bytes. Error where sizes do not fit.
Tensor take_tensor(pb::Tensor&, const std::filesystem::path& folder);

// The inverse, into a message that take_tensor left (in the form it had there), or into a new one (raw bytes).
void put_tensor(pb::Tensor&, const Tensor&, bool is_new);

// With zeros between the values, which are taken from `left`: how many elements may still be made. Error where the
// indices do not fit the shape or more elements would be made.
Tensor dense_tensor(const pb::SparseTensor&, const std::filesystem::path& folder, Index& left);
// For all sparse tensors of a file of so many bytes.
Index most_dense_elements(size_t bytes);

}  // namespace d5
