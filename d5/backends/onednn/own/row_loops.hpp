// SPDX-License-Identifier: Apache-2.0
// Rows of a matrix times a vector: y[i] = sum of a[i, k] x[k], and bias[i] where there is one, rectified where relu.
// Compiled once for each instruction set, like the loops of loops.hpp.
#pragma once

#include <cstdint>

namespace d5::onednn::own {

using RowProducts = void (*)(const float* a, const float* x, const float* bias, float* y, int64_t rows, int64_t n,
                             bool relu);

}  // namespace d5::onednn::own
