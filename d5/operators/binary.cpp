// SPDX-License-Identifier: Apache-2.0
// Functions of two numbers with numpy's broadcasting (ONNX Sub, Mul, Div, Pow, Mod, BitShift, BitwiseAnd, BitwiseOr,
// BitwiseXor), one struct each: y, its slopes and how they err (see elementwise.hpp). Integers wrap around; where ONNX
// leaves an integer result open (division by zero) it is 0 here, and never a trap.
#include "d5/operators/elementwise.hpp"
#include "d5/operators/product.hpp"

namespace d5 {
namespace {

struct Sub : BinaryFunction {
  static constexpr std::string_view place = "[sub]";
  static constexpr bool exact = true, exact_slopes = true, slope_is_constant = true;
  static constexpr double units = 0, flops[2] = {1, 1};
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
    return static_cast<T>(a - b);
  }
  double slope(size_t input, double, double) const { return input == 0 ? 1 : -1; }
  double error(double a, double b) const { return std::abs(a) + std::abs(b); }
  double slope_error(size_t, double, double) const { return 1; }
};

struct Mul : BinaryFunction {
  static constexpr std::string_view place = "[mul]";
  static constexpr bool exact = true, exact_slopes = true;
  static constexpr double units = 1;
  template <class T>
  T operator()(T a, T b) const {
    return multiply_add(T{}, a, b);
  }
  double slope(size_t input, double a, double b) const { return input == 0 ? b : a; }
  double error(double a, double b) const { return std::abs(a * b); }
  double slope_error(size_t input, double a, double b) const { return std::abs(slope(input, a, b)); }
};

// Integers: towards zero. a (1 / b) with a reciprocal of one ulp is 3 u off.
//   da = dy / b      db = -dy a / b^2, often from the stored quotient, divided and multiplied once more
struct Div : BinaryFunction {
  static constexpr std::string_view place = "[div]";
  static constexpr double units = 3, b_low = 0.5, b_high = 3, flops[2] = {1, 3};
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      if (b == T{}) return T{};
      if constexpr (std::is_signed_v<T>)
        if (b == T{-1}) return static_cast<T>(uint64_t{0} - static_cast<uint64_t>(a));  // the least one wraps around
    }
    return static_cast<T>(a / b);
  }
  double slope(size_t input, double a, double b) const { return input == 0 ? 1 / b : -a / (b * b); }
  double error(double a, double b) const { return std::abs(a / b); }
  double slope_error(size_t input, double a, double b) const { return (input + 1.0) * std::abs(slope(input, a, b)); }
};

// The base decides the type. exp(b log a): the logarithm errs by |log a| + 1, so y by a relative |b| (|log a| + 1).
//   da = dy b a^(b-1)      db = dy y log a
// Integers: by squaring; a negative power of an integer is 0 but for 1 and -1.
struct Pow : BinaryFunction {
  static constexpr std::string_view place = "[pow]";
  static constexpr std::initializer_list<DType> types{DType::f32,  DType::f64, DType::f16,
                                                      DType::bf16, DType::i32, DType::i64};
  static constexpr double a_low = 0.25, a_high = 3, flops[2] = {1, 4};
  static void check(SpecSpan in, std::string_view place) { check_type(in[1], number_types, place); }
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      if (b < T{})
        return a == T{1} || (a == static_cast<T>(-1) && b % 2 == 0) ? T{1} : a == static_cast<T>(-1) ? a : T{};
      T result{1};
      for (auto n = static_cast<uint64_t>(b); n > 0; n /= 2) {
        if (n % 2) result = multiply_add(T{}, result, a);
        a = multiply_add(T{}, a, a);
      }
      return result;
    } else {
      return std::pow(a, b);
    }
  }
  double slope(size_t input, double a, double b) const {
    if (input == 0) return b == 0 ? 0 : b * std::pow(a, b - 1);
    return a == 0 && b >= 0 ? 0 : std::pow(a, b) * std::log(a);
  }
  // Of a power of |a|: a negative base has no logarithm, its whole powers have the same error. Those of 0 are exact.
  double error(double a, double b) const {
    const double size = std::abs(a);
    return size == 0 ? 0 : std::pow(size, b) * (1 + std::abs(b) * (1 + std::abs(std::log(size))));
  }
  double slope_error(size_t input, double a, double b) const {
    if (input == 0)  // the power is stored, and b times it
      return std::abs(b) * (error(a, b - 1) + std::abs(std::pow(a, b - 1)));
    const double y = std::pow(a, b),
                 logarithm = std::abs(std::log(a));  // y, the logarithm and their product are stored
    return error(a, b) * logarithm + 2 * y * (logarithm + 1);
  }
};

// The remainder of the quotient rounded down (fmod = 0: of the sign of b) or towards zero (fmod = 1: of the sign of a).
//   da = dy      db = -dy q, q the rounded quotient
// Remainders are exact, but not a - q b with a rounded quotient: next to a multiple of b that is off by the whole of b.
struct Mod : BinaryFunction {
  static constexpr std::string_view place = "[mod]";
  static constexpr double a_low = -6.93, a_high = 7.07, b_low = 1.04, b_high = 3.11, flops[2] = {1, 2};
  static constexpr const char* real_size = "7x5";  // among many quotients some are next to a whole number
  explicit Mod(const Attributes& a) : towards_zero(a.flag("fmod", false)) {}
  static std::vector<Parameter> parameters() { return {{"fmod", "1: the sign is that of A; 0: that of B", 0}}; }
  static std::vector<Attributes> attribute_cases() { return {{{"fmod", 1}}}; }
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_same_v<T, bool>) {
      return false;
    } else if constexpr (std::is_integral_v<T>) {
      if (b == T{} || b == static_cast<T>(-1)) return b == T{} || std::is_signed_v<T> ? T{} : static_cast<T>(a % b);
      const T rest = static_cast<T>(a % b);
      return !towards_zero && rest != T{} && (rest < T{}) != (b < T{}) ? static_cast<T>(rest + b) : rest;
    } else {
      const double rest = std::fmod(a, b);
      if (towards_zero || std::isnan(rest)) return rest;
      if (rest == 0) return std::copysign(0.0, b);
      return (rest < 0) != (b < 0) ? rest + b : rest;
    }
  }
  double slope(size_t input, double a, double b) const {
    return input == 0 ? 1 : -(towards_zero ? std::trunc(a / b) : std::floor(a / b));
  }
  double error(double a, double b) const { return std::abs(a) + (wraps(a, b) ? undecided * std::abs(b) : std::abs(b)); }
  double slope_error(size_t input, double a, double b) const {
    return std::abs(slope(input, a, b)) + (input == 1 && wraps(a, b) ? undecided : 0);
  }
  bool towards_zero;

 private:
  static bool wraps(double a, double b) { return std::abs(std::remainder(a, b)) <= 0x1p-22 * std::abs(a); }
};

// Bits that leave are lost. To the right a signed number keeps its sign; a distance that is negative or as large as the
// width leaves the sign alone: 0, or -1 for a negative number to the right.
struct BitShift : BinaryFunction {
  static constexpr std::string_view place = "[bit_shift]";
  static constexpr auto types = integer_types;
  static constexpr bool differentiable = false;
  static constexpr double a_low = -100, a_high = 100, b_low = 0, b_high = 9;
  explicit BitShift(const Attributes& a) : left(a.text("direction", "") == "LEFT") {
    if (!left && a.text("direction", "") != "RIGHT")
      throw UsageError("{} direction is '{}'; legal: LEFT, RIGHT", place, a.text("direction", ""));
  }
  static std::vector<Parameter> parameters() { return {{"direction", "LEFT or RIGHT", "LEFT"}}; }
  static std::vector<Attributes> attribute_cases() { return {{{"direction", "RIGHT"}}}; }
  template <class T>
  requires std::is_integral_v<T> T operator()(T a, T b) const {
    if (b < T{} || static_cast<uint64_t>(b) >= 8 * sizeof(T)) return !left && a < T{} ? static_cast<T>(-1) : T{};
    return left ? static_cast<T>(static_cast<uint64_t>(a) << b) : static_cast<T>(a >> b);
  }
  bool left;
};

template <class Bits>
struct Bitwise : BinaryFunction {
  static constexpr std::string_view place = Bits::place;
  static constexpr auto types = integer_types;
  static constexpr bool differentiable = false;
  static constexpr double a_low = 0, a_high = 100, b_low = 0, b_high = 100;
  template <class T>
  requires std::is_integral_v<T> T operator()(T a, T b) const {
    return static_cast<T>(Bits::combine(static_cast<uint64_t>(a), static_cast<uint64_t>(b)));
  }
};
struct And {
  static constexpr std::string_view place = "[bitwise_and]";
  static uint64_t combine(uint64_t a, uint64_t b) { return a & b; }
};
struct Or {
  static constexpr std::string_view place = "[bitwise_or]";
  static uint64_t combine(uint64_t a, uint64_t b) { return a | b; }
};
struct Xor {
  static constexpr std::string_view place = "[bitwise_xor]";
  static uint64_t combine(uint64_t a, uint64_t b) { return a ^ b; }
};

}  // namespace
D5_REGISTER(operators, "Sub", Binary<Sub>);
D5_REGISTER(operators, "Mul", Binary<Mul>);
D5_REGISTER(operators, "Div", Binary<Div>);
D5_REGISTER(operators, "Pow", Binary<Pow>);
D5_REGISTER(operators, "Mod", Binary<Mod>);
D5_REGISTER(operators, "BitShift", Binary<BitShift>);
D5_REGISTER(operators, "BitwiseAnd", Binary<Bitwise<And>>);
D5_REGISTER(operators, "BitwiseOr", Binary<Bitwise<Or>>);
D5_REGISTER(operators, "BitwiseXor", Binary<Bitwise<Xor>>);
}  // namespace d5
