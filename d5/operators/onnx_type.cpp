// SPDX-License-Identifier: Apache-2.0
#include "d5/operators/onnx_type.hpp"

#include <array>

namespace d5 {
namespace {

struct Number {
  int64_t number;
  DType type;
};
constexpr std::array numbers{
    Number{1, DType::f32},         Number{2, DType::u8},      Number{3, DType::i8},
    Number{4, DType::u16},         Number{5, DType::i16},     Number{6, DType::i32},
    Number{7, DType::i64},         Number{8, DType::string},  Number{9, DType::boolean},
    Number{10, DType::f16},        Number{11, DType::f64},    Number{12, DType::u32},
    Number{13, DType::u64},        Number{16, DType::bf16},   Number{17, DType::f8e4m3fn},
    Number{18, DType::f8e4m3fnuz}, Number{19, DType::f8e5m2}, Number{20, DType::f8e5m2fnuz},
    Number{21, DType::u4},         Number{22, DType::i4},     Number{23, DType::f4e2m1},
    Number{24, DType::f8e8m0},     Number{25, DType::u2},     Number{26, DType::i2},
    Number{27, DType::f6e2m3},     Number{28, DType::f6e3m2},
};

}  // namespace

std::optional<DType> type_of_onnx(int64_t number) {
  for (const Number& one : numbers)
    if (one.number == number) return one.type;
  return {};
}

int64_t onnx_number(DType type) {
  for (const Number& one : numbers)
    if (one.type == type) return one.number;
  return 0;
}

std::optional<DType> type_attribute(const Attributes& a, const std::string& name, std::string_view place) {
  if (!a.has(name)) return {};
  if (std::holds_alternative<std::string>(a.values().at(name))) return parse_dtype(a.text(name, ""));
  const int64_t number = a.integer(name, 0);
  if (number == 0) return {};
  if (const auto type = type_of_onnx(number)) return type;
  throw UsageError("{} {} is {}; ONNX's number of an element type is wanted, complex ones excepted", place, name,
                   number);
}

}  // namespace d5
