// SPDX-License-Identifier: Apache-2.0
#include "d5/operators/narrow_float.hpp"

#include <cmath>
#include <limits>

#include "d5/core/convert.hpp"

namespace d5 {

double rounded_to(DType type, double value) {
  if (type == DType::f32) return static_cast<float>(value);
  if (!is_float(type) || type == DType::f64) return value;
  uint16_t stored = 0;
  store_from_double(type, &stored, 0, value);
  return load_as_double(type, &stored, 0);
}

double within_float8(DType type, double value, bool saturate) {
  // The largest value, and the least that rounds to more: a tie goes to the even neighbour.
  double largest = 57344, beyond = 61440;
  switch (type) {
    case DType::f8e4m3fn:
      largest = 448;
      beyond = std::nextafter(464, 1000);
      break;
    case DType::f8e4m3fnuz:
      largest = 240;
      beyond = 248;
      break;
    case DType::f8e5m2:
    case DType::f8e5m2fnuz: break;
    default: return value;
  }
  if (!(std::abs(value) >= beyond)) return value;
  if (saturate) return std::copysign(largest, value);
  if (type != DType::f8e5m2) return std::numeric_limits<double>::quiet_NaN();
  return std::copysign(std::numeric_limits<double>::infinity(), value);
}

}  // namespace d5
