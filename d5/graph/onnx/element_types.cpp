// SPDX-License-Identifier: Apache-2.0
#include "d5/graph/onnx/element_types.hpp"

#include "d5/operators/onnx_type.hpp"

namespace d5 {
namespace {

constexpr int64_t complex64 = 14, complex128 = 15;

}  // namespace

DType element_type(int64_t code) {
  if (const auto type = type_of_onnx(code)) return *type;
  if (code == complex64 || code == complex128)
    throw CannotRun("element type complex{} is not supported", code == complex64 ? 64 : 128);
  throw Error("element type {} does not exist", code);
}

int element_code(DType type) { return static_cast<int>(onnx_number(type)); }

}  // namespace d5
