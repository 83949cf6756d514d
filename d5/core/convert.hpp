// SPDX-License-Identifier: Apache-2.0
// Conversion of arrays between element types. Every value is rounded at most once.
//   to a float     to nearest even. Overflow gives infinity in 16 bits and more. In 8 bits it follows ONNX Cast with
//                  saturate = true: a finite value becomes the largest finite one of its sign. Infinity does too in
//                  e4m3fn, becomes NaN in e4m3fnuz and e5m2fnuz and stays what it is in e5m2. Floats of 4 and 6 bits
//                  have neither infinity nor NaN: infinity becomes the largest value of its sign, NaN -0.
//                  e8m0 has neither sign nor zero: the nearest power of two of the magnitude, a tie to the larger.
//   to an integer  exactly where it fits, a fraction is dropped, saturated where it does not fit, NaN is 0
//   to bool        whether it is not 0
// Strings convert to nothing: an Error. Large arrays are converted by parallel_for.
#pragma once

#include <cstdint>

#include "d5/core/dtype.hpp"

namespace d5 {

void convert(DType from_type, const void* from, DType to_type, void* to, int64_t elements);

// One value at an index, widened to double; and stored, rounded. Of less than 8 bits the index counts elements, not
// bytes.
double load_as_double(DType type, const void* data, int64_t index);
void store_from_double(DType type, void* data, int64_t index, double value);

}  // namespace d5
