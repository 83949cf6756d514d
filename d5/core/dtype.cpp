// SPDX-License-Identifier: Apache-2.0
#include "d5/core/dtype.hpp"

#include <array>
#include <cmath>

namespace d5 {
namespace {

struct Row {
  DType type;
  std::string_view name;
  int bits;
  int significand;  // bits of precision with the hidden one; 0: not a float
};
constexpr std::array rows{
    Row{DType::f64, "f64", 64, 53},
    Row{DType::f32, "f32", 32, 24},
    Row{DType::f16, "f16", 16, 11},
    Row{DType::bf16, "bf16", 16, 8},
    Row{DType::f8e4m3fn, "f8e4m3fn", 8, 4},
    Row{DType::f8e4m3fnuz, "f8e4m3fnuz", 8, 4},
    Row{DType::f8e5m2, "f8e5m2", 8, 3},
    Row{DType::f8e5m2fnuz, "f8e5m2fnuz", 8, 3},
    Row{DType::f8e8m0, "f8e8m0", 8, 1},
    Row{DType::f6e2m3, "f6e2m3", 6, 4},
    Row{DType::f6e3m2, "f6e3m2", 6, 3},
    Row{DType::f4e2m1, "f4e2m1", 4, 2},
    Row{DType::i4, "i4", 4, 0},
    Row{DType::u4, "u4", 4, 0},
    Row{DType::i2, "i2", 2, 0},
    Row{DType::u2, "u2", 2, 0},
    Row{DType::i8, "i8", 8, 0},
    Row{DType::i16, "i16", 16, 0},
    Row{DType::i32, "i32", 32, 0},
    Row{DType::i64, "i64", 64, 0},
    Row{DType::u8, "u8", 8, 0},
    Row{DType::u16, "u16", 16, 0},
    Row{DType::u32, "u32", 32, 0},
    Row{DType::u64, "u64", 64, 0},
    Row{DType::boolean, "bool", 8, 0},
    Row{DType::string, "string", 0, 0},
};
const Row& row(DType type) { return rows[static_cast<size_t>(type)]; }

}  // namespace

std::string_view name(DType type) { return row(type).name; }

const std::vector<std::string>& dtype_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Row& r : rows) all.emplace_back(r.name);
    return all;
  }();
  return names;
}

DType parse_dtype(std::string_view text) {
  for (const Row& r : rows)
    if (r.name == text) return r.type;
  fail_unknown("[dtype]", "element type", text, dtype_names());
}

int bits(DType type) { return row(type).bits; }
int64_t storage_bytes(DType type, int64_t elements) {
  if (type == DType::string) return elements * static_cast<int64_t>(sizeof(std::string));
  int64_t total = 0;
  if (__builtin_mul_overflow(elements, static_cast<int64_t>(bits(type)), &total))
    throw Error("[dtype] {} elements of {} are more bytes than can be counted", elements, name(type));
  return total / 8 + (total % 8 != 0);
}
bool is_float(DType type) { return row(type).significand > 0; }
bool is_integer(DType type) { return !is_float(type) && type != DType::boolean && type != DType::string; }
double round_off(DType type) { return is_float(type) ? std::ldexp(1.0, -row(type).significand) : 0.0; }
DType compute_dtype(DType type) {
  if (is_float(type)) return DType::f64;
  if (type == DType::i4 || type == DType::i2) return DType::i8;
  if (type == DType::u4 || type == DType::u2) return DType::u8;
  return type;
}

}  // namespace d5
