// SPDX-License-Identifier: Apache-2.0
// Conversion of arrays between element types. Every value is rounded at most once.
//   to a float     to nearest even. Overflow gives infinity in 16 bits and more. In 8 bits it follows ONNX Cast with
//                  saturate = true: a finite value becomes the largest finite one of its sign; infinity does too in
//                  e4m3fn and e5m2 and becomes NaN in e4m3fnuz and e5m2fnuz. f4e2m1 has neither infinity nor NaN:
//                  infinity becomes 6 of its sign, NaN becomes 6.
//   to an integer  exactly where it fits, a fraction is dropped, saturated where it does not fit, NaN is 0
//   to bool        whether it is not 0
// Strings convert to nothing: an Error. Large arrays are converted by parallel_for.
#pragma once

#include <cstdint>

#include "d5/core/dtype.hpp"

namespace d5 {

void convert(DType from_type, const void* from, DType to_type, void* to, int64_t elements);

// One value at an index, widened to double; and stored, rounded. For 4-bit types the index counts nibbles.
double load_as_double(DType type, const void* data, int64_t index);
void store_from_double(DType type, void* data, int64_t index, double value);

}  // namespace d5
