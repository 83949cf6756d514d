// SPDX-License-Identifier: Apache-2.0
// Functions of two and three numbers: value, and what reaches the gradient of each (as d5/operators/binary.cpp,
// comparison.cpp, variadic.cpp, where.cpp, clip.cpp, prelu.cpp and the losses of elements define them).
#include "d5/backends/onednn/own/loops/functions.hpp"

namespace d5::onednn::own::D5_ISA {
namespace {

#define D5_VALUE(VALUE) \
  D5_INLINE static Vector value(Vector a, Vector b, const Parameters&) { return spread(VALUE); }
#define D5_SLOPES(SLOPE_A, SLOPE_B)                                                                \
  D5_INLINE static Vector slope_a([[maybe_unused]] Vector a, [[maybe_unused]] Vector b, Vector dy, \
                                  const Parameters&) {                                             \
    return spread(SLOPE_A);                                                                        \
  }                                                                                                \
  D5_INLINE static Vector slope_b([[maybe_unused]] Vector a, [[maybe_unused]] Vector b, Vector dy, \
                                  const Parameters&) {                                             \
    return spread(SLOPE_B);                                                                        \
  }

struct Add {
  D5_VALUE(a + b)
  D5_SLOPES(dy, dy)
};
struct Sub {
  D5_VALUE(a - b)
  D5_SLOPES(dy, -dy)
};
struct Mul {
  D5_VALUE(a* b)
  D5_SLOPES(dy* b, dy* a)
};
struct Div {
  D5_VALUE(a / b)
  D5_SLOPES(dy / b, -dy*(a / b) / b)
};
struct Pow {
  D5_VALUE(pow_of(a, b))
  D5_SLOPES(b == 0.0f ? 0.0f : dy * (b * pow_of(a, b - 1.0f)),
            ((a == 0.0f) & (b >= 0.0f)) ? 0.0f : dy*(pow_of(a, b) * log_of(a)))
};
// Usual are powers of numbers above 0, by exponents that give a number (times its logarithm) below the bound.
struct UsualPow {
  template <class X>
  D5_INLINE static Vector logarithm(X& x, int64_t i) {
    return power_log(x[0][i]);
  }
};
struct PowValue : UsualPow {
  static constexpr uint32_t bound = 0x7f800000u;
  template <class X>
  D5_INLINE static Words word(X& x, int64_t i) {
    return bits_of(absolute(x[1][i] * logarithm(x, i)));
  }
  template <class X>
  D5_INLINE static Vector usual(X& x, int64_t i) {
    return power_exp(x[1][i] * logarithm(x, i));
  }
  template <class X>
  D5_INLINE static Vector careful(X& x, int64_t i) {
    return pow_of(x[0][i], x[1][i]);
  }
};
struct PowGradientA : UsualPow {  // 0 to the power of 0 less 1 is infinite, times 0 it is none
  static constexpr uint32_t bound = __builtin_bit_cast(uint32_t, 80.0f);
  template <class X>
  D5_INLINE static Words word(X& x, int64_t i) {
    return bits_of(absolute((x[1][i] - 1.0f) * logarithm(x, i)));
  }
  template <class X>
  D5_INLINE static Vector usual(X& x, int64_t i) {
    return x[2][i] * (x[1][i] * power_exp((x[1][i] - 1.0f) * logarithm(x, i)));
  }
  template <class X>
  D5_INLINE static Vector careful(X& x, int64_t i) {
    return Pow::slope_a(x[0][i], x[1][i], x[2][i], Parameters());
  }
};
struct PowGradientB : PowValue {
  template <class X>
  D5_INLINE static Vector usual(X& x, int64_t i) {
    return x[2][i] * (PowValue::usual(x, i) * (log_of_base * logarithm(x, i)));
  }
  template <class X>
  D5_INLINE static Vector careful(X& x, int64_t i) {
    return Pow::slope_b(x[0][i], x[1][i], x[2][i], Parameters());
  }
};
struct Mod {
  // Zeros have the sign of b; an infinite b leaves a, or is it where the signs differ.
  D5_INLINE static Vector rest(Vector a, Vector b) {
    const float infinity = __builtin_inff();
    const Vector finite = a - floor_of(a / b) * b, other = a * b < 0.0f ? b : a;
    const Vector value = ((absolute(b) == infinity) & (absolute(a) < infinity)) ? other : finite;
    return value == 0.0f ? (b < 0.0f ? -0.0f : 0.0f) : value;
  }
  D5_VALUE(rest(a, b))
  D5_SLOPES(dy, -dy* floor_of(a / b))
};
struct ModTowardsZero {
  D5_VALUE(a - trunc_of(a / b) * b)
  D5_SLOPES(dy, -dy* trunc_of(a / b))
};
struct PRelu {
  D5_VALUE(a < 0.0f ? a * b : a)
  D5_SLOPES(a > 0.0f ? dy : dy * b, a < 0.0f ? dy * a : 0.0f)
};
// The first of equal values has the gradient; NaN wins.
struct Max {
  D5_INLINE static auto second(Vector a, Vector b) { return (b > a) | ((b != b) & (a == a)); }
  D5_VALUE(b != b ? b : larger(b, a))
  D5_SLOPES(second(a, b) ? 0.0f : dy, second(a, b) ? dy : 0.0f)
};
struct Min {
  D5_INLINE static auto second(Vector a, Vector b) { return (b < a) | ((b != b) & (a == a)); }
  D5_VALUE(b != b ? b : smaller(b, a))
  D5_SLOPES(second(a, b) ? 0.0f : dy, second(a, b) ? dy : 0.0f)
};
struct ScaledSum {  // a: the factor
  D5_INLINE static Vector value(Vector a, Vector b, const Parameters& p) { return (a + b) * p.a; }
};
// Losses: a prediction, b target.
struct SquaredError {
  D5_VALUE((a - b) * (a - b))
  D5_SLOPES(dy*(2.0f * (a - b)), dy*(2.0f * (b - a)))
};
D5_INLINE Vector bounded_log(Vector x) { return at_least(log_of(x), -100.0f); }
struct BinaryCrossEntropy {
  D5_VALUE(-b* bounded_log(a) - (1.0f - b) * bounded_log(1.0f - a))
  D5_SLOPES(dy*((a - b) / at_least(a * (1.0f - a), 1e-12f)), dy*(bounded_log(1.0f - a) - bounded_log(a)))
};

struct Equal {
  D5_VALUE(a == b ? 1.0f : 0.0f)
};
struct Greater {
  D5_VALUE(a > b ? 1.0f : 0.0f)
};
struct GreaterOrEqual {
  D5_VALUE(a >= b ? 1.0f : 0.0f)
};
struct Less {
  D5_VALUE(a < b ? 1.0f : 0.0f)
};
struct LessOrEqual {
  D5_VALUE(a <= b ? 1.0f : 0.0f)
};
struct And {  // of bools: 0 or 1
  D5_VALUE(a* b)
};
struct Or {
  D5_VALUE(larger(a, b))
};
struct Xor {
  D5_VALUE(a == b ? 0.0f : 1.0f)
};

struct Where {
  D5_INLINE static Vector value(Vector condition, Vector x, Vector y) { return condition != 0.0f ? x : y; }
  template <int input>
  D5_INLINE static Vector slope(Vector condition, Vector, Vector, Vector dy) {
    return input == 1 ? (condition != 0.0f ? dy : 0.0f) : (condition != 0.0f ? 0.0f : dy);
  }
};
struct Clip {  // limits are -inf and inf where they are absent
  D5_INLINE static Vector value(Vector x, Vector low, Vector high) {
    const Vector raised = x < low ? low : x;
    return raised > high ? high : raised;
  }
  template <int>
  D5_INLINE static Vector slope(Vector x, Vector low, Vector high, Vector dy) {
    return ((x >= low) & (x <= high)) ? dy : 0.0f;
  }
};

template <class F>
constexpr TileFunctions value_alone(const char* op) {
  return {op, 2, binary_value<F>, {}};
}

}  // namespace

const TileFunctions binary_functions[] = {
    binary<Add>("Add", 0),
    binary<Sub>("Sub", 0),
    binary<Mul>("Mul"),
    binary<Div>("Div"),
    {"Pow",
     2,
     usual_or_careful<2, PowValue>,
     {usual_or_careful<3, PowGradientA>, usual_or_careful<3, PowGradientB>},
     3},
    binary<Mod>("Mod"),
    binary<ModTowardsZero>("Mod fmod"),
    binary<PRelu>("PRelu"),
    binary<Max>("Max"),
    binary<Min>("Min"),
    value_alone<ScaledSum>("scaled sum"),
    binary<SquaredError>("MeanSquaredError"),
    binary<BinaryCrossEntropy>("BinaryCrossEntropy"),
    value_alone<Equal>("Equal"),
    value_alone<Greater>("Greater"),
    value_alone<GreaterOrEqual>("GreaterOrEqual"),
    value_alone<Less>("Less"),
    value_alone<LessOrEqual>("LessOrEqual"),
    value_alone<And>("And"),
    value_alone<Or>("Or"),
    value_alone<Xor>("Xor"),
    {"Where", 3, ternary_value<Where>, {nullptr, ternary_gradient<Where, 1>, ternary_gradient<Where, 2>}, 1},
    {"Clip", 3, ternary_value<Clip>, {ternary_gradient<Clip, 0>}},
};
const size_t binary_count = sizeof binary_functions / sizeof binary_functions[0];

}  // namespace d5::onednn::own::D5_ISA
