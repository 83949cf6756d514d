// SPDX-License-Identifier: Apache-2.0
// Functions of one number: value and slope, as d5/operators/unary.cpp defines them.
#include "d5/backends/onednn/own/loops/functions.hpp"

namespace d5::onednn::own::D5_ISA {
namespace {

#define D5_UNARY(Name, VALUE, SLOPE)                                                                        \
  struct Name {                                                                                             \
    D5_INLINE static Vector value(Vector x, [[maybe_unused]] const Parameters& p) { return spread(VALUE); } \
    D5_INLINE static Vector slope([[maybe_unused]] Vector x, [[maybe_unused]] const Parameters& p) {        \
      return spread(SLOPE);                                                                                 \
    }                                                                                                       \
  };

D5_INLINE Vector sign_of(Vector x) { return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x; }
D5_INLINE Vector square(Vector x) { return x * x; }

D5_UNARY(Abs, absolute(x), x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : 0.0f)
D5_UNARY(Neg, -x, -1.0f)
D5_UNARY(Sign, sign_of(x), 0.0f)
D5_UNARY(Floor, floor_of(x), 0.0f)
D5_UNARY(Ceil, ceil_of(x), 0.0f)
D5_UNARY(Round, nearest(x), 0.0f)
D5_UNARY(Exp, exp_of(x), exp_of(x))
D5_UNARY(Log, log_of(x), 1.0f / x)
D5_UNARY(Sqrt, square_root(x), 0.5f / square_root(x))
D5_UNARY(Reciprocal, 1.0f / x, -1.0f / (x * x))
D5_UNARY(Erf, erf_of(x), 0x1.20dd76p+0f * exp_of(-x * x))
D5_UNARY(Sin, sin_of(x), cos_of(x))
D5_UNARY(Cos, cos_of(x), -sin_of(x))
D5_UNARY(Tan, tan_of(x), 1.0f + square(tan_of(x)))
D5_UNARY(Asin, asin_of(x), 1.0f / square_root((1.0f - x) * (1.0f + x)))
D5_UNARY(Acos, acos_of(x), -1.0f / square_root((1.0f - x) * (1.0f + x)))
D5_UNARY(Atan, atan_of(x), 1.0f / (1.0f + x * x))
D5_UNARY(Sinh, sinh_of(x), cosh_of(x))
D5_UNARY(Cosh, cosh_of(x), sinh_of(x))
D5_UNARY(Asinh, asinh_of(x), 1.0f / square_root(x * x + 1.0f))
D5_UNARY(Acosh, acosh_of(x), 1.0f / square_root((x - 1.0f) * (x + 1.0f)))
D5_UNARY(Atanh, atanh_of(x), 1.0f / ((1.0f - x) * (1.0f + x)))
D5_UNARY(Not, x == 0.0f ? 1.0f : 0.0f, 0.0f)
D5_UNARY(IsNaN, x != x ? 1.0f : 0.0f, 0.0f)
D5_UNARY(IsInf, (x == -__builtin_inff() ? p.a : x == __builtin_inff() ? p.b : 0.0f), 0.0f)

// The reduction of the argument holds below a bound; what lies beyond goes to the library.
struct Turned {
  static constexpr uint32_t bound = __builtin_bit_cast(uint32_t, most_turned);
  template <class X>
  D5_INLINE static Words word(X& x, int64_t i) {
    return bits_of(absolute(x[0][i]));
  }
};
template <class F, float (*library)(float)>
struct PeriodicValue : Turned {
  template <class X>
  D5_INLINE static Vector usual(X& x, int64_t i) {
    return F::value(x[0][i], Parameters());
  }
  template <class X>
  D5_INLINE static Vector careful(X& x, int64_t i) {
    return each_lane(library, x[0][i]);
  }
};
template <class F, float (*slope)(float)>
struct PeriodicGradient : Turned {
  template <class X>
  D5_INLINE static Vector usual(X& x, int64_t i) {
    return x[1][i] * F::slope(x[0][i], Parameters());
  }
  template <class X>
  D5_INLINE static Vector careful(X& x, int64_t i) {
    return x[1][i] * each_lane(slope, x[0][i]);
  }
};
float library_sin(float x) { return __builtin_sinf(x); }
float library_cos(float x) { return __builtin_cosf(x); }
float library_tan(float x) { return __builtin_tanf(x); }
float minus_sin(float x) { return -__builtin_sinf(x); }
float tan_slope(float x) { return 1.0f + __builtin_tanf(x) * __builtin_tanf(x); }

template <class F, float (*library)(float), float (*slope)(float)>
constexpr TileFunctions periodic(const char* op) {
  return {op, 1, usual_or_careful<1, PeriodicValue<F, library>>, {usual_or_careful<2, PeriodicGradient<F, slope>>}};
}

}  // namespace

const TileFunctions unary_functions[] = {
    unary<Abs>("Abs"),
    unary<Neg>("Neg", 0),
    unary<Sign>("Sign", 0),
    unary<Floor>("Floor", 0),
    unary<Ceil>("Ceil", 0),
    unary<Round>("Round", 0),
    unary<Exp>("Exp"),
    unary<Log>("Log"),
    unary<Sqrt>("Sqrt"),
    unary<Reciprocal>("Reciprocal"),
    unary<Erf>("Erf"),
    periodic<Sin, library_sin, library_cos>("Sin"),
    periodic<Cos, library_cos, minus_sin>("Cos"),
    periodic<Tan, library_tan, tan_slope>("Tan"),
    unary<Asin>("Asin"),
    unary<Acos>("Acos"),
    unary<Atan>("Atan"),
    unary<Sinh>("Sinh"),
    unary<Cosh>("Cosh"),
    unary<Asinh>("Asinh"),
    unary<Acosh>("Acosh"),
    unary<Atanh>("Atanh"),
    {"Not", 1, unary_value<Not>, {}},
    {"IsNaN", 1, unary_value<IsNaN>, {}},
    {"IsInf", 1, unary_value<IsInf>, {}},
};
const size_t unary_count = sizeof unary_functions / sizeof unary_functions[0];

}  // namespace d5::onednn::own::D5_ISA
