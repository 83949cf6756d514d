// SPDX-License-Identifier: Apache-2.0
// bf16 and f16 to f32 and back, as core/convert.hpp has it, on one thread and in the widest registers of the processor.
#pragma once

#include "d5/core/dtype.hpp"

namespace d5 {

void widen(DType from_type, const void* from, float* to, int64_t elements);
void narrow(const float* from, DType to_type, void* to, int64_t elements);  // to nearest even

}  // namespace d5
