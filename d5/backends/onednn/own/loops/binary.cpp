// SPDX-License-Identifier: Apache-2.0
// Functions of two and three numbers: value, and what reaches the gradient of each (as d5/operators/binary.cpp,
// comparison.cpp, variadic.cpp, where.cpp, clip.cpp, prelu.cpp and the losses of elements define them).
#include "d5/backends/onednn/own/loops/functions.hpp"

namespace d5::onednn::own::D5_ISA {
namespace {

#define D5_VALUE(VALUE) \
  D5_INLINE static float value(float a, float b, const Parameters&) { return VALUE; }
#define D5_SLOPES(SLOPE_A, SLOPE_B)                                                                                 \
  D5_INLINE static float slope_a([[maybe_unused]] float a, [[maybe_unused]] float b, float dy, const Parameters&) { \
    return SLOPE_A;                                                                                                 \
  }                                                                                                                 \
  D5_INLINE static float slope_b([[maybe_unused]] float a, [[maybe_unused]] float b, float dy, const Parameters&) { \
    return SLOPE_B;                                                                                                 \
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
            a == 0.0f && b >= 0.0f ? 0.0f : dy * (pow_of(a, b) * log_of(a)))
};
struct Mod {
  // Zeros have the sign of b; an infinite b leaves a, or is it where the signs differ.
  D5_INLINE static float rest(float a, float b) {
    const float infinity = __builtin_inff();
    const bool divides = b < infinity && b > -infinity;
    const float finite = a - floor_of(a / b) * b, other = (a < 0.0f && b > 0.0f) || (a > 0.0f && b < 0.0f) ? b : a;
    const bool apart = !divides && b == b && a < infinity && a > -infinity;
    const float value = apart ? other : finite;
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
  D5_INLINE static bool second(float a, float b) { return b > a || (b != b && a == a); }
  D5_VALUE(second(a, b) ? b : a)
  D5_SLOPES(second(a, b) ? 0.0f : dy, second(a, b) ? dy : 0.0f)
};
struct Min {
  D5_INLINE static bool second(float a, float b) { return b < a || (b != b && a == a); }
  D5_VALUE(second(a, b) ? b : a)
  D5_SLOPES(second(a, b) ? 0.0f : dy, second(a, b) ? dy : 0.0f)
};
// Losses: a prediction, b target.
struct SquaredError {
  D5_VALUE((a - b) * (a - b))
  D5_SLOPES(dy*(2.0f * (a - b)), dy*(2.0f * (b - a)))
};
D5_INLINE float bounded_log(float x) { return larger(log_of(x), -100.0f); }
struct BinaryCrossEntropy {
  D5_VALUE(-b* bounded_log(a) - (1.0f - b) * bounded_log(1.0f - a))
  D5_SLOPES(dy*((a - b) / larger(a * (1.0f - a), 1e-12f)), dy*(bounded_log(1.0f - a) - bounded_log(a)))
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
  D5_INLINE static float value(float condition, float x, float y) { return condition != 0.0f ? x : y; }
  template <int input>
  D5_INLINE static float slope(float condition, float, float, float dy) {
    return (condition != 0.0f) == (input == 1) ? dy : 0.0f;
  }
};
struct Clip {  // limits are -inf and inf where they are absent
  D5_INLINE static float value(float x, float low, float high) {
    const float raised = x < low ? low : x;
    return raised > high ? high : raised;
  }
  template <int>
  D5_INLINE static float slope(float x, float low, float high, float dy) {
    return x >= low && x <= high ? dy : 0.0f;
  }
};

template <class F>
constexpr TileFunctions predicate(const char* op) {
  return {op, 2, binary_value<F>, {}};
}

}  // namespace

const TileFunctions binary_functions[] = {
    binary<Add>("Add", 0),
    binary<Sub>("Sub", 0),
    binary<Mul>("Mul"),
    binary<Div>("Div"),
    binary<Pow>("Pow"),
    binary<Mod>("Mod"),
    binary<ModTowardsZero>("Mod fmod"),
    binary<PRelu>("PRelu"),
    binary<Max>("Max"),
    binary<Min>("Min"),
    binary<SquaredError>("MeanSquaredError"),
    binary<BinaryCrossEntropy>("BinaryCrossEntropy"),
    predicate<Equal>("Equal"),
    predicate<Greater>("Greater"),
    predicate<GreaterOrEqual>("GreaterOrEqual"),
    predicate<Less>("Less"),
    predicate<LessOrEqual>("LessOrEqual"),
    predicate<And>("And"),
    predicate<Or>("Or"),
    predicate<Xor>("Xor"),
    {"Where", 3, ternary_value<Where>, {nullptr, ternary_gradient<Where, 1>, ternary_gradient<Where, 2>}, 1},
    {"Clip", 3, ternary_value<Clip>, {ternary_gradient<Clip, 0>}},
};
const size_t binary_count = sizeof binary_functions / sizeof binary_functions[0];

}  // namespace d5::onednn::own::D5_ISA
