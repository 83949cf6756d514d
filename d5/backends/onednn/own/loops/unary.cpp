// SPDX-License-Identifier: Apache-2.0
// Functions of one number: value and slope, as d5/operators/unary.cpp defines them.
#include "d5/backends/onednn/own/loops/functions.hpp"

namespace d5::onednn::own::D5_ISA {
namespace {

#define D5_UNARY(Name, VALUE, SLOPE)                                                                               \
  struct Name {                                                                                                    \
    D5_INLINE static float value(float x, [[maybe_unused]] const Parameters& p) { return VALUE; }                  \
    D5_INLINE static float slope([[maybe_unused]] float x, [[maybe_unused]] const Parameters& p) { return SLOPE; } \
  };

D5_INLINE float sign_of(float x) { return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x; }
D5_INLINE float truth(bool value) { return value ? 1.0f : 0.0f; }
D5_INLINE float square(float x) { return x * x; }

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
D5_UNARY(Not, truth(x == 0.0f), 0.0f)
D5_UNARY(IsNaN, truth(x != x), 0.0f)
D5_UNARY(IsInf, (x == -__builtin_inff() ? p.a : x == __builtin_inff() ? p.b : 0.0f), 0.0f)

// The reduction of the argument holds for |x| < 2^20; what holds anything larger goes to the library.
bool holds(const Values& x, int64_t n) {
  alignas(64) float room[block_elements];
  float most = 0.0f;
  for (int64_t at = 0; at < n; at += block_elements) {
    const int64_t count = n - at < block_elements ? n - at : block_elements;
    const float* values = fetch(x, at, count, room);
    for (int64_t i = 0; i < count; ++i) most = larger(absolute(values[i]), most);
  }
  return most < 0x1p20f;
}
template <TileFunction fast, float (*library)(float)>
void reduced(const Values* in, const Place& out, int64_t n, const float* parameters) {
  if (holds(in[0], n)) return fast(in, out, n, parameters);
  each_of<1>(in, out, n, [](auto& x, int64_t i) { return library(x[0][i]); });
}
template <TileFunction fast, float (*slope)(float)>
void reduced_gradient(const Values* in, const Place& out, int64_t n, const float* parameters) {
  if (holds(in[0], n)) return fast(in, out, n, parameters);
  each_of<2>(in, out, n, [](auto& x, int64_t i) { return x[1][i] * slope(x[0][i]); });
}
float library_sin(float x) { return __builtin_sinf(x); }
float library_cos(float x) { return __builtin_cosf(x); }
float library_tan(float x) { return __builtin_tanf(x); }
float minus_sin(float x) { return -__builtin_sinf(x); }
float tan_slope(float x) { return 1.0f + square(__builtin_tanf(x)); }

template <class F, float (*library)(float), float (*slope)(float)>
constexpr TileFunctions periodic(const char* op) {
  return {op, 1, reduced<unary_value<F>, library>, {reduced_gradient<unary_gradient<F>, slope>}};
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
