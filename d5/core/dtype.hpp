// SPDX-License-Identifier: Apache-2.0
// Element types. Floats narrower than 32 bits and integers narrower than 8 are storage types: converted on use.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "d5/core/error.hpp"

namespace d5 {

enum class DType : uint8_t {
  f64,
  f32,
  f16,
  bf16,
  f8e4m3fn,
  f8e4m3fnuz,
  f8e5m2,
  f8e5m2fnuz,  // names and meanings as in ONNX
  f8e8m0,      // a power of two, from 2^-127 to 2^127, or NaN: no sign, no zero
  f6e2m3,
  f6e3m2,
  f4e2m1,
  i4,
  u4,
  i2,
  u2,  // less than 8 bits: packed without gaps, the first in the lowest bits
  i8,
  i16,
  i32,
  i64,
  u8,
  u16,
  u32,
  u64,
  boolean,
  string
};

std::string_view name(DType);
DType parse_dtype(std::string_view name);  // UsageError with the nearest legal name
const std::vector<std::string>& dtype_names();

int bits(DType);  // per element; 0 for string
int64_t storage_bytes(DType, int64_t elements);
bool is_float(DType);     // of 8 bits and fewer, too
bool is_integer(DType);   // bool excluded
double round_off(DType);  // unit round-off u: half the distance from 1 to the next number; 0 for integers

// IEEE half and bfloat16 as storage: bits, and conversion with round to nearest even.
struct Half {
  uint16_t bits;
  Half() = default;
  explicit Half(float value) {
    const auto u = std::bit_cast<uint32_t>(value);
    const uint32_t sign = (u >> 16) & 0x8000, magnitude = u & 0x7fffffff;
    const uint32_t normal = (magnitude + 0xfff + ((magnitude >> 13) & 1) - 0x38000000) >> 13;
    // Below 2^-14 the grid is fixed: at 1/2 a float's last bit is worth 2^-24, so the addition rounds to that grid.
    const uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000;
    const uint32_t nan = 0x7e00 | ((magnitude >> 13) & 0x3ff);  // quiet, the payload's top kept
    uint32_t code = magnitude < 0x38800000 ? subnormal : normal;
    code = magnitude >= 0x477ff000 ? 0x7c00 : code;  // rounds past the largest half
    code = magnitude > 0x7f800000 ? nan : code;
    bits = static_cast<uint16_t>(sign | code);
  }
  operator float() const {
    const uint32_t sign = (bits & 0x8000u) << 16, magnitude = bits & 0x7fffu;
    const uint32_t normal = (magnitude << 13) + (magnitude >= 0x7c00 ? 0x70000000 : 0x38000000);
    const uint32_t subnormal = std::bit_cast<uint32_t>(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f);
    return std::bit_cast<float>(sign | (magnitude < 0x400 ? subnormal : normal));
  }
};
struct BFloat16 {
  uint16_t bits;
  BFloat16() = default;
  explicit BFloat16(float value) {
    const auto u = std::bit_cast<uint32_t>(value);
    bits = value != value ? static_cast<uint16_t>((u >> 16) | 0x40)
                          : static_cast<uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
  }
  operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

template <class T>
struct dtype_of;
template <>
struct dtype_of<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct dtype_of<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct dtype_of<Half> {
  static constexpr DType value = DType::f16;
};
template <>
struct dtype_of<BFloat16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct dtype_of<int8_t> {
  static constexpr DType value = DType::i8;
};
template <>
struct dtype_of<int16_t> {
  static constexpr DType value = DType::i16;
};
template <>
struct dtype_of<int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct dtype_of<int64_t> {
  static constexpr DType value = DType::i64;
};
template <>
struct dtype_of<uint8_t> {
  static constexpr DType value = DType::u8;
};
template <>
struct dtype_of<uint16_t> {
  static constexpr DType value = DType::u16;
};
template <>
struct dtype_of<uint32_t> {
  static constexpr DType value = DType::u32;
};
template <>
struct dtype_of<uint64_t> {
  static constexpr DType value = DType::u64;
};
template <>
struct dtype_of<bool> {
  static constexpr DType value = DType::boolean;
};
template <>
struct dtype_of<std::string> {
  static constexpr DType value = DType::string;
};

// Calls f.template operator()<T>() with the type that operators compute in: double for every float type, the integer
// itself, bool. This is how one loop serves the oracle for all element types.
template <class F>
decltype(auto) with_compute_type(DType type, F&& f) {
  switch (type) {
    case DType::i8: return f.template operator()<int8_t>();
    case DType::i16: return f.template operator()<int16_t>();
    case DType::i32: return f.template operator()<int32_t>();
    case DType::i64: return f.template operator()<int64_t>();
    case DType::u8: return f.template operator()<uint8_t>();
    case DType::u16: return f.template operator()<uint16_t>();
    case DType::u32: return f.template operator()<uint32_t>();
    case DType::u64: return f.template operator()<uint64_t>();
    case DType::boolean: return f.template operator()<bool>();
    case DType::string: throw Error("[dtype] strings cannot be computed with");
    case DType::i4:
    case DType::i2: return f.template operator()<int8_t>();
    case DType::u4:
    case DType::u2: return f.template operator()<uint8_t>();
    default: return f.template operator()<double>();
  }
}
// The same for what merely moves elements: strings are one more type.
template <class F>
decltype(auto) with_element_type(DType type, F&& f) {
  return type == DType::string ? f.template operator()<std::string>() : with_compute_type(type, f);
}
// The type a tensor of this dtype is widened to before an oracle touches it: f64, or the integer's own (at least 8
// bits).
DType compute_dtype(DType);

}  // namespace d5
