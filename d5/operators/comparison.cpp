// SPDX-License-Identifier: Apache-2.0
// Comparisons and logic of two numbers with numpy's broadcasting (ONNX Equal, Greater, GreaterOrEqual, Less,
// LessOrEqual, And, Or, Xor). The result is bool; there is no gradient. Every comparison with NaN is false.
#include <functional>

#include "d5/operators/elementwise.hpp"

namespace d5 {
namespace {

// Values are few, so that equal ones occur.
struct Predicate : BinaryFunction {
  static constexpr bool differentiable = false, predicate = true;
};

struct Equal : Predicate, std::equal_to<> {
  static constexpr std::string_view place = "[equal]";
  static constexpr bool strings = true;
  static constexpr std::initializer_list<DType> types{
      DType::f32, DType::f64, DType::f16, DType::bf16, DType::boolean, DType::i8,  DType::i16,
      DType::i32, DType::i64, DType::u8,  DType::u16,  DType::u32,     DType::u64, DType::string,
  };
};
struct Greater : Predicate, std::greater<> {
  static constexpr std::string_view place = "[greater]";
};
struct GreaterOrEqual : Predicate, std::greater_equal<> {
  static constexpr std::string_view place = "[greater_or_equal]";
};
struct Less : Predicate, std::less<> {
  static constexpr std::string_view place = "[less]";
};
struct LessOrEqual : Predicate, std::less_equal<> {
  static constexpr std::string_view place = "[less_or_equal]";
};

struct Logic : Predicate {
  static constexpr auto types = bool_types;
  static constexpr double a_low = 0, a_high = 1, b_low = 0, b_high = 1;
};
struct And : Logic, std::logical_and<> {
  static constexpr std::string_view place = "[and]";
};
struct Or : Logic, std::logical_or<> {
  static constexpr std::string_view place = "[or]";
};
struct Xor : Logic, std::not_equal_to<> {
  static constexpr std::string_view place = "[xor]";
};

}  // namespace
D5_REGISTER(operators, "Equal", Binary<Equal>);
D5_REGISTER(operators, "Greater", Binary<Greater>);
D5_REGISTER(operators, "GreaterOrEqual", Binary<GreaterOrEqual>);
D5_REGISTER(operators, "Less", Binary<Less>);
D5_REGISTER(operators, "LessOrEqual", Binary<LessOrEqual>);
D5_REGISTER(operators, "And", Binary<And>);
D5_REGISTER(operators, "Or", Binary<Or>);
D5_REGISTER(operators, "Xor", Binary<Xor>);
}  // namespace d5
