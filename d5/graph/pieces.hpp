// SPDX-License-Identifier: Apache-2.0
// Tensors cut along an axis and put together again, bytes as they are: what sequences and loops are made of.
#pragma once

#include <vector>

#include "d5/core/tensor.hpp"

namespace d5 {

Tensor take_range(const Tensor&, size_t axis, Index first, Index count);
Tensor take_index(const Tensor&, size_t axis, Index index);   // without the axis
Tensor concatenate(const std::vector<Tensor>&, size_t axis);  // Error where sizes of other axes or types differ
Tensor stack(const std::vector<Tensor>&, size_t axis);        // along a new axis

}  // namespace d5
