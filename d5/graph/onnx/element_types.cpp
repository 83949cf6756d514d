// SPDX-License-Identifier: Apache-2.0
#include "d5/graph/onnx/element_types.hpp"

#include <array>

namespace d5 {
namespace {

struct Row {
  int code;
  std::string_view name;
  std::optional<DType> type;
};
constexpr std::array rows{
    Row{1, "float", DType::f32},
    Row{2, "uint8", DType::u8},
    Row{3, "int8", DType::i8},
    Row{4, "uint16", DType::u16},
    Row{5, "int16", DType::i16},
    Row{6, "int32", DType::i32},
    Row{7, "int64", DType::i64},
    Row{8, "string", DType::string},
    Row{9, "bool", DType::boolean},
    Row{10, "float16", DType::f16},
    Row{11, "double", DType::f64},
    Row{12, "uint32", DType::u32},
    Row{13, "uint64", DType::u64},
    Row{14, "complex64", {}},
    Row{15, "complex128", {}},
    Row{16, "bfloat16", DType::bf16},
    Row{17, "float8e4m3fn", DType::f8e4m3fn},
    Row{18, "float8e4m3fnuz", DType::f8e4m3fnuz},
    Row{19, "float8e5m2", DType::f8e5m2},
    Row{20, "float8e5m2fnuz", DType::f8e5m2fnuz},
    Row{21, "uint4", DType::u4},
    Row{22, "int4", DType::i4},
    Row{23, "float4e2m1", DType::f4e2m1},
    Row{24, "float8e8m0", DType::f8e8m0},
    Row{25, "uint2", DType::u2},
    Row{26, "int2", DType::i2},
    Row{27, "float6e2m3", DType::f6e2m3},
    Row{28, "float6e3m2", DType::f6e3m2},
};

const Row* find_row(int64_t code) {
  for (const Row& row : rows)
    if (row.code == code) return &row;
  return nullptr;
}

}  // namespace

std::optional<DType> find_element_type(int64_t code) {
  const Row* row = find_row(code);
  return row ? row->type : std::nullopt;
}

DType element_type(int64_t code) {
  const Row* row = find_row(code);
  if (!row) throw Error("element type {} does not exist; legal: 1 to {}", code, rows.back().code);
  if (!row->type) throw CannotRun("element type {} is not supported", row->name);
  return *row->type;
}

int element_code(DType type) {
  for (const Row& row : rows)
    if (row.type == type) return row.code;
  throw Error("[onnx] {} has no number in ONNX", name(type));
}

}  // namespace d5
