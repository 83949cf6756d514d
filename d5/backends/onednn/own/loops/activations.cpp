// SPDX-License-Identifier: Apache-2.0
// Activations: value and slope, as d5/operators/activations.cpp defines them, of x alone.
#include "d5/backends/onednn/own/loops/functions.hpp"

namespace d5::onednn::own::D5_ISA {
namespace {

struct Relu {
  D5_INLINE static Vector value(Vector x, const Parameters&) { return x < 0.0f ? 0.0f : x; }
  D5_INLINE static Vector slope(Vector x, const Parameters&) { return x > 0.0f ? 1.0f : 0.0f; }
};
struct LeakyRelu {  // a: alpha
  D5_INLINE static Vector value(Vector x, const Parameters& p) { return x < 0.0f ? p.a * x : x; }
  D5_INLINE static Vector slope(Vector x, const Parameters& p) { return x > 0.0f ? 1.0f : p.a; }
};
struct ThresholdedRelu {  // a: alpha
  D5_INLINE static Vector value(Vector x, const Parameters& p) { return x <= p.a ? 0.0f : x; }
  D5_INLINE static Vector slope(Vector x, const Parameters& p) { return x > p.a ? 1.0f : 0.0f; }
};
struct Elu {  // a: gain
  D5_INLINE static Vector value(Vector x, const Parameters& p) { return x <= 0.0f ? p.a * expm1_below(x) : x; }
  D5_INLINE static Vector slope(Vector x, const Parameters& p) { return x <= 0.0f ? p.a * exp_of(x) : 1.0f; }
};
struct Selu {  // a: gain, c: scale
  D5_INLINE static Vector value(Vector x, const Parameters& p) { return x <= 0.0f ? p.a * expm1_below(x) : p.c * x; }
  D5_INLINE static Vector slope(Vector x, const Parameters& p) { return x <= 0.0f ? p.a * exp_of(x) : p.c; }
};
struct Celu {  // a: gain, b: width, d: gain / width
  D5_INLINE static Vector value(Vector x, const Parameters& p) { return x <= 0.0f ? p.a * expm1_below(x / p.b) : x; }
  D5_INLINE static Vector slope(Vector x, const Parameters& p) { return x <= 0.0f ? p.d * exp_of(x / p.b) : 1.0f; }
};
struct Sigmoid {
  D5_INLINE static Vector value(Vector x, const Parameters&) { return sigmoid_of(x); }
  D5_INLINE static Vector slope(Vector x, const Parameters&) {
    const Vector e = exp_of(-absolute(x)), s = 1.0f / (1.0f + e);
    return e * s * s;
  }
};
struct Tanh {  // slope 4 e / (1 + e)^2 with e = exp(-2 |x|)
  D5_INLINE static Vector value(Vector x, const Parameters&) { return tanh_of(x); }
  D5_INLINE static Vector slope(Vector x, const Parameters&) {
    const Vector e = exp_of(-2.0f * absolute(x)), s = 1.0f / (1.0f + e);
    return 4.0f * e * s * s;
  }
};
D5_INLINE Vector ramp(Vector line) { return line < 0.0f ? 0.0f : line > 1.0f ? 1.0f : line; }
struct HardSigmoid {  // a: alpha, b: beta
  D5_INLINE static Vector value(Vector x, const Parameters& p) { return ramp(p.a * x + p.b); }
  D5_INLINE static Vector slope(Vector x, const Parameters& p) {
    const Vector line = p.a * x + p.b;
    return ((line > 0.0f) & (line < 1.0f)) ? p.a : 0.0f;
  }
};
struct HardSwish {
  D5_INLINE static Vector line(Vector x) { return 0x1.555556p-3f * x + 0.5f; }
  D5_INLINE static Vector value(Vector x, const Parameters&) { return x * ramp(line(x)); }
  D5_INLINE static Vector slope(Vector x, const Parameters&) {
    const Vector l = line(x);
    return l <= 0.0f ? 0.0f : l >= 1.0f ? 1.0f : 0x1.555556p-2f * x + 0.5f;
  }
};
struct Gelu {
  D5_INLINE static Vector value(Vector x, const Parameters&) { return gelu_of(x); }
  D5_INLINE static Vector slope(Vector x, const Parameters&) { return gelu_slope(x); }
};
struct GeluByTanh {  // (1 + tanh g) / 2 = sigmoid(2 g), g = sqrt(2 / pi) (x + 0.044715 x^3)
  D5_INLINE static Vector twice_g(Vector x) { return 0x1.988454p+0f * (x + 0x1.6e4e26p-5f * x * x * x); }
  D5_INLINE static Vector value(Vector x, const Parameters&) { return x * sigmoid_of(twice_g(x)); }
  D5_INLINE static Vector slope(Vector x, const Parameters&) {
    const Vector z = twice_g(x), e = exp_of(-absolute(z)), s = 1.0f / (1.0f + e);
    const Vector half = z < 0.0f ? e * s : s;
    return half + x * e * s * s * (0x1.988454p+0f * (1.0f + 3.0f * 0x1.6e4e26p-5f * x * x));
  }
};
struct Softplus {
  D5_INLINE static Vector value(Vector x, const Parameters&) { return softplus_of(x); }
  D5_INLINE static Vector slope(Vector x, const Parameters&) { return sigmoid_of(x); }
};
struct Softsign {
  D5_INLINE static Vector value(Vector x, const Parameters&) { return x / (1.0f + absolute(x)); }
  D5_INLINE static Vector slope(Vector x, const Parameters&) {
    const Vector s = 1.0f / (1.0f + absolute(x));
    return s * s;
  }
};
// tanh(softplus x) = n / (n + 2) with n = e^2 + 2 e, e = exp x; beyond 20 it is 1. Its slope is 4 e (e + 1) / (n +
// 2)^2.
struct Mish {
  D5_INLINE static Vector value(Vector x, const Parameters&) {
    const Vector e = exp_of(at_most(x, 20.0f)), n = e * (e + 2.0f);
    return x * n / (n + 2.0f);
  }
  D5_INLINE static Vector slope(Vector x, const Parameters&) {
    const Vector bounded = at_most(x, 20.0f), e = exp_of(bounded), product = e * e + e, n = product + e;
    const Vector r = inverse(n + 2.0f);
    return (4.0f * bounded * product * r + n) * r;
  }
};
struct Swish {  // a: alpha
  D5_INLINE static Vector value(Vector x, const Parameters& p) { return x / (1.0f + exp_of(-p.a * x)); }
  D5_INLINE static Vector slope(Vector x, const Parameters& p) {
    const Vector z = p.a * x, e = exp_of(-absolute(z)), s = 1.0f / (1.0f + e);
    return (z < 0.0f ? e * s : s) + z * e * s * s;
  }
};

}  // namespace

const TileFunctions activation_functions[] = {
    unary<Relu>("Relu"),
    unary<LeakyRelu>("LeakyRelu"),
    unary<ThresholdedRelu>("ThresholdedRelu"),
    unary<Elu>("Elu"),
    unary<Celu>("Celu"),
    unary<Selu>("Selu"),
    unary<Sigmoid>("Sigmoid"),
    unary<Tanh>("Tanh"),
    unary<HardSigmoid>("HardSigmoid"),
    unary<HardSwish>("HardSwish"),
    unary<Gelu>("Gelu"),
    unary<GeluByTanh>("Gelu tanh"),
    unary<Softplus>("Softplus"),
    unary<Softsign>("Softsign"),
    unary<Mish>("Mish"),
    unary<Swish>("Swish"),
};
const size_t activation_count = sizeof activation_functions / sizeof activation_functions[0];

}  // namespace d5::onednn::own::D5_ISA
