// SPDX-License-Identifier: Apache-2.0
// Conversion of arrays between element types: through double between floats (exact, then one rounding to nearest even),
// integers exactly where they fit and saturated where not, NaN to integer is 0. Strings convert to nothing.
#pragma once

#include <cstdint>

#include "d5/core/dtype.hpp"

namespace d5 {

void convert(DType from_type, const void* from, DType to_type, void* to, int64_t elements);

// One value at an index, widened to double; and stored, rounded. For 4-bit types the index counts nibbles.
double load_as_double(DType type, const void* data, int64_t index);
void store_from_double(DType type, void* data, int64_t index, double value);

}  // namespace d5
