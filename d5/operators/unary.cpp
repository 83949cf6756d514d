// SPDX-License-Identifier: Apache-2.0
// Functions of one number (ONNX Abs, Neg, Exp, ..., Not, IsNaN, IsInf, BitwiseNot), one struct each: y, dy/dx and how
// both err (see elementwise.hpp; u is the round-off). Sign, Floor, Ceil and Round have a gradient of zero.
#include <numbers>

#include "d5/operators/elementwise.hpp"

namespace d5 {
namespace {

// ---- exact: nothing is rounded
struct Abs : Function {
  static constexpr std::string_view place = "[abs]";
  static constexpr auto types = number_types;
  static constexpr bool integers = true, exact = true;
  template <class T>
  T operator()(T x) const {
    if constexpr (std::is_integral_v<T>) return x < T{} ? static_cast<T>(uint64_t{0} - static_cast<uint64_t>(x)) : x;
    return static_cast<T>(std::abs(static_cast<double>(x)));
  }
  double slope(double x) const { return static_cast<double>(x > 0) - static_cast<double>(x < 0); }
};

struct Neg : Function {
  static constexpr std::string_view place = "[neg]";
  static constexpr auto types = signed_types;
  static constexpr bool integers = true, exact = true, slope_is_constant = true;
  template <class T>
  T operator()(T x) const {
    if constexpr (std::is_integral_v<T>) return static_cast<T>(uint64_t{0} - static_cast<uint64_t>(x));
    return static_cast<T>(-static_cast<double>(x));
  }
  double slope(double) const { return -1; }
};

struct Step : Function {  // constant but for jumps
  static constexpr bool exact = true;
  double slope(double) const { return 0; }
};
struct Sign : Step {
  static constexpr std::string_view place = "[sign]";
  static constexpr auto types = number_types;
  static constexpr bool integers = true;
  template <class T>
  T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>)
      if (std::isnan(x)) return x;
    return static_cast<T>(static_cast<int>(x > T{}) - static_cast<int>(x < T{}));
  }
};
struct Floor : Step {
  static constexpr std::string_view place = "[floor]";
  double operator()(double x) const { return std::floor(x); }
};
struct Ceil : Step {
  static constexpr std::string_view place = "[ceil]";
  double operator()(double x) const { return std::ceil(x); }
};
struct Round : Step {  // halves to the even neighbour: the processor's rounding, which nobody changes
  static constexpr std::string_view place = "[round]";
  static constexpr double low = -4.01, high = 4.03;
  double operator()(double x) const { return std::nearbyint(x); }
};

// ---- elementary functions
struct Exp : Function {
  static constexpr std::string_view place = "[exp]";
  double operator()(double x) const { return std::exp(x); }
  double slope(double x) const { return std::exp(x); }
  double error(double x) const { return std::exp(x) * (1 + std::abs(x)); }
  double slope_error(double x) const { return error(x); }  // the stored y
};

struct Log : Function {
  static constexpr std::string_view place = "[log]";
  static constexpr double low = 0.1;
  double operator()(double x) const { return std::log(x); }
  double slope(double x) const { return 1 / x; }
  double error(double x) const { return std::abs(std::log(x)) + 1; }  // x f' = 1
  double slope_error(double x) const { return 1 / x; }
};

struct Sqrt : Function {
  static constexpr std::string_view place = "[sqrt]";
  static constexpr double low = 0.1;
  double operator()(double x) const { return std::sqrt(x); }
  double slope(double x) const { return 0.5 / std::sqrt(x); }
  double error(double x) const { return std::sqrt(x); }
  double slope_error(double x) const { return 2 * slope(x); }  // the stored y, and twice it
};

struct Reciprocal : Function {
  static constexpr std::string_view place = "[reciprocal]";
  static constexpr double low = 0.25;
  double operator()(double x) const { return 1 / x; }
  double slope(double x) const { return -1 / (x * x); }
  double error(double x) const { return std::abs(1 / x); }
  double slope_error(double x) const { return 3 / (x * x); }  // -y y: the stored y, twice, and its square
};

struct Erf : Function {  // y' = 2 / sqrt(pi) exp(-x^2)
  static constexpr std::string_view place = "[erf]";
  static constexpr double flops[2] = {1, 4};
  double operator()(double x) const { return std::erf(x); }
  double slope(double x) const { return 2 * std::numbers::inv_sqrtpi * std::exp(-x * x); }
  double error(double x) const { return std::abs(std::erf(x)) + std::abs(x) * slope(x); }
  double slope_error(double x) const { return slope(x) * (2 + x * x); }  // x^2, the exponential and its factor
};

// ---- trigonometric and hyperbolic functions
struct Sin : Function {
  static constexpr std::string_view place = "[sin]";
  double operator()(double x) const { return std::sin(x); }
  double slope(double x) const { return std::cos(x); }
  double error(double x) const { return std::abs(std::sin(x)) + std::abs(x * std::cos(x)); }
  double slope_error(double x) const { return std::abs(std::cos(x)) + std::abs(x * std::sin(x)); }
};

struct Cos : Function {
  static constexpr std::string_view place = "[cos]";
  double operator()(double x) const { return std::cos(x); }
  double slope(double x) const { return -std::sin(x); }
  double error(double x) const { return std::abs(std::cos(x)) + std::abs(x * std::sin(x)); }
  double slope_error(double x) const { return std::abs(std::sin(x)) + std::abs(x * std::cos(x)); }
};

struct Tan : Function {  // y' = 1 + y^2
  static constexpr std::string_view place = "[tan]";
  static constexpr double low = -1.2, high = 1.2;
  double operator()(double x) const { return std::tan(x); }
  double slope(double x) const { return 1 + std::tan(x) * std::tan(x); }
  double error(double x) const { return std::abs(std::tan(x)) + std::abs(x) * slope(x); }
  // The sum is stored, the square of y is stored, and y itself errs: 2 |y| error.
  double slope_error(double x) const { return 2 * slope(x) + 2 * std::abs(std::tan(x)) * error(x); }
};

// 1 / sqrt(1 - x^2) and the like: the square is rounded, the difference is stored (half of both remains after the
// root), the root is stored.
double root_slope_error(double x, double difference) {
  return (1.5 + 0.5 * x * x / difference) / std::sqrt(difference);
}

struct Asin : Function {
  static constexpr std::string_view place = "[asin]";
  static constexpr double low = -0.95, high = 0.95;
  static constexpr double flops[2] = {1, 5};
  double operator()(double x) const { return std::asin(x); }
  double slope(double x) const { return 1 / std::sqrt(1 - x * x); }
  double error(double x) const { return std::abs(std::asin(x)) + std::abs(x) * slope(x); }
  double slope_error(double x) const { return root_slope_error(x, 1 - x * x); }
};

struct Acos : Function {  // often pi / 2 - asin x
  static constexpr std::string_view place = "[acos]";
  static constexpr double low = -0.95, high = 0.95;
  static constexpr double flops[2] = {1, 5};
  double operator()(double x) const { return std::acos(x); }
  double slope(double x) const { return -1 / std::sqrt(1 - x * x); }
  double error(double x) const { return std::numbers::pi / 2 + std::abs(std::asin(x)) + std::abs(x * slope(x)); }
  double slope_error(double x) const { return root_slope_error(x, 1 - x * x); }
};

struct Atan : Function {
  static constexpr std::string_view place = "[atan]";
  static constexpr double flops[2] = {1, 4};
  double operator()(double x) const { return std::atan(x); }
  double slope(double x) const { return 1 / (1 + x * x); }
  double error(double x) const { return std::abs(std::atan(x)) + std::abs(x) * slope(x); }
  double slope_error(double x) const { return 3 * slope(x); }  // the square, the sum, its reciprocal
};

struct Sinh : Function {  // often (exp(x) - exp(-x)) / 2, which cancels about zero
  static constexpr std::string_view place = "[sinh]";
  double operator()(double x) const { return std::sinh(x); }
  double slope(double x) const { return std::cosh(x); }
  double error(double x) const { return std::cosh(x) * (1 + std::abs(x)); }
  double slope_error(double x) const { return error(x); }
};

struct Cosh : Function {
  static constexpr std::string_view place = "[cosh]";
  double operator()(double x) const { return std::cosh(x); }
  double slope(double x) const { return std::sinh(x); }
  double error(double x) const { return std::cosh(x) + std::abs(x * std::sinh(x)); }
  double slope_error(double x) const { return std::cosh(x) * (1 + std::abs(x)); }
};

struct Asinh : Function {  // often log(|x| + sqrt(x^2 + 1)): an argument near 1 is rounded
  static constexpr std::string_view place = "[asinh]";
  static constexpr double flops[2] = {1, 5};
  double operator()(double x) const { return std::asinh(x); }
  double slope(double x) const { return 1 / std::sqrt(x * x + 1); }
  double error(double x) const { return 1 + std::abs(std::asinh(x)); }
  double slope_error(double x) const { return root_slope_error(x, x * x + 1); }
};

struct Acosh : Function {  // often log(x + sqrt(x^2 - 1)); x^2 - 1 cancels about 1, as |x f'| does
  static constexpr std::string_view place = "[acosh]";
  static constexpr double low = 1.1;
  static constexpr double flops[2] = {1, 5};
  double operator()(double x) const { return std::acosh(x); }
  double slope(double x) const { return 1 / std::sqrt(x * x - 1); }
  double error(double x) const { return 1 + std::acosh(x) + x * slope(x); }
  double slope_error(double x) const { return root_slope_error(x, x * x - 1); }
};

struct Atanh : Function {  // often log((1 + x) / (1 - x)) / 2: 1 + x and 1 - x are rounded
  static constexpr std::string_view place = "[atanh]";
  static constexpr double low = -0.9, high = 0.9;
  static constexpr double flops[2] = {1, 4};
  double operator()(double x) const { return std::atanh(x); }
  double slope(double x) const { return 1 / (1 - x * x); }
  double error(double x) const { return 1 + std::abs(std::atanh(x)) + std::abs(x) * slope(x); }
  double slope_error(double x) const { return slope(x) * (2 + x * x * slope(x)); }
};

// ---- tests and bits: no gradient
struct Discrete : Function {
  static constexpr bool integers = true, differentiable = false;
  static constexpr double low = -100, high = 100;
};
struct Not : Discrete {
  static constexpr std::string_view place = "[not]";
  static constexpr auto types = bool_types;
  static constexpr double low = 0, high = 1;
  template <class T>
  T operator()(T x) const {
    return !x;
  }
};
struct BitwiseNot : Discrete {
  static constexpr std::string_view place = "[bitwise_not]";
  static constexpr auto types = integer_types;
  template <class T>
  T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T> || std::is_same_v<T, bool>)
      return x;
    else
      return static_cast<T>(~x);
  }
};
inline constexpr std::initializer_list<DType> testable_types{DType::f32,    DType::f64,       DType::f16,
                                                             DType::bf16,   DType::f8e4m3fn,  DType::f8e4m3fnuz,
                                                             DType::f8e5m2, DType::f8e5m2fnuz};
struct IsNaN : Discrete {
  static constexpr std::string_view place = "[is_nan]";
  static constexpr auto types = testable_types;
  static constexpr bool integers = false, predicate = true;
  bool operator()(double x) const { return std::isnan(x); }
};
struct IsInf : Discrete {
  static constexpr std::string_view place = "[is_inf]";
  static constexpr auto types = testable_types;
  static constexpr bool integers = false, predicate = true;
  explicit IsInf(const Attributes& a)
      : negative(a.flag("detect_negative", true)), positive(a.flag("detect_positive", true)) {}
  bool operator()(double x) const { return std::isinf(x) && (x < 0 ? negative : positive); }
  static std::vector<Parameter> parameters() {
    return {{"detect_negative", "-inf counts", 1}, {"detect_positive", "+inf counts", 1}};
  }
  bool negative, positive;
};

}  // namespace
D5_REGISTER(operators, "Abs", Unary<Abs>);
D5_REGISTER(operators, "Neg", Unary<Neg>);
D5_REGISTER(operators, "Sign", Unary<Sign>);
D5_REGISTER(operators, "Floor", Unary<Floor>);
D5_REGISTER(operators, "Ceil", Unary<Ceil>);
D5_REGISTER(operators, "Round", Unary<Round>);
D5_REGISTER(operators, "Exp", Unary<Exp>);
D5_REGISTER(operators, "Log", Unary<Log>);
D5_REGISTER(operators, "Sqrt", Unary<Sqrt>);
D5_REGISTER(operators, "Reciprocal", Unary<Reciprocal>);
D5_REGISTER(operators, "Erf", Unary<Erf>);
D5_REGISTER(operators, "Sin", Unary<Sin>);
D5_REGISTER(operators, "Cos", Unary<Cos>);
D5_REGISTER(operators, "Tan", Unary<Tan>);
D5_REGISTER(operators, "Asin", Unary<Asin>);
D5_REGISTER(operators, "Acos", Unary<Acos>);
D5_REGISTER(operators, "Atan", Unary<Atan>);
D5_REGISTER(operators, "Sinh", Unary<Sinh>);
D5_REGISTER(operators, "Cosh", Unary<Cosh>);
D5_REGISTER(operators, "Asinh", Unary<Asinh>);
D5_REGISTER(operators, "Acosh", Unary<Acosh>);
D5_REGISTER(operators, "Atanh", Unary<Atanh>);
D5_REGISTER(operators, "Not", Unary<Not>);
D5_REGISTER(operators, "BitwiseNot", Unary<BitwiseNot>);
D5_REGISTER(operators, "IsNaN", Unary<IsNaN>);
D5_REGISTER(operators, "IsInf", Unary<IsInf>);
}  // namespace d5
