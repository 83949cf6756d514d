// SPDX-License-Identifier: Apache-2.0
// Activations: value and slope, as d5/operators/activations.cpp defines them, of x alone.
#include "d5/backends/onednn/own/loops/functions.hpp"

namespace d5::onednn::own::D5_ISA {
namespace {

struct Relu {
  D5_INLINE static float value(float x, const Parameters&) { return x < 0.0f ? 0.0f : x; }
  D5_INLINE static float slope(float x, const Parameters&) { return x > 0.0f ? 1.0f : 0.0f; }
};
struct LeakyRelu {  // a: alpha
  D5_INLINE static float value(float x, const Parameters& p) { return x < 0.0f ? p.a * x : x; }
  D5_INLINE static float slope(float x, const Parameters& p) { return x > 0.0f ? 1.0f : p.a; }
};
struct ThresholdedRelu {  // a: alpha
  D5_INLINE static float value(float x, const Parameters& p) { return x <= p.a ? 0.0f : x; }
  D5_INLINE static float slope(float x, const Parameters& p) { return x > p.a ? 1.0f : 0.0f; }
};
struct Exponential {  // Elu, Celu, Selu; a: gain, b: width, c: scale, d: gain / width
  D5_INLINE static float value(float x, const Parameters& p) { return x <= 0.0f ? p.a * expm1_of(x / p.b) : p.c * x; }
  D5_INLINE static float slope(float x, const Parameters& p) { return x <= 0.0f ? p.d * exp_of(x / p.b) : p.c; }
};
struct Sigmoid {
  D5_INLINE static float value(float x, const Parameters&) { return sigmoid_of(x); }
  D5_INLINE static float slope(float x, const Parameters&) {
    const float e = exp_of(-absolute(x)), s = 1.0f / (1.0f + e);
    return e * s * s;
  }
};
struct Tanh {  // slope 4 e / (1 + e)^2 with e = exp(-2 |x|)
  D5_INLINE static float value(float x, const Parameters&) { return tanh_of(x); }
  D5_INLINE static float slope(float x, const Parameters&) {
    const float e = exp_of(-2.0f * absolute(x)), s = 1.0f / (1.0f + e);
    return 4.0f * e * s * s;
  }
};
D5_INLINE float ramp(float line) { return line < 0.0f ? 0.0f : line > 1.0f ? 1.0f : line; }
struct HardSigmoid {  // a: alpha, b: beta
  D5_INLINE static float value(float x, const Parameters& p) { return ramp(p.a * x + p.b); }
  D5_INLINE static float slope(float x, const Parameters& p) {
    const float line = p.a * x + p.b;
    return line > 0.0f && line < 1.0f ? p.a : 0.0f;
  }
};
struct HardSwish {
  D5_INLINE static float line(float x) { return 0x1.555556p-3f * x + 0.5f; }
  D5_INLINE static float value(float x, const Parameters&) { return x * ramp(line(x)); }
  D5_INLINE static float slope(float x, const Parameters&) {
    const float l = line(x);
    return l <= 0.0f ? 0.0f : l >= 1.0f ? 1.0f : 0x1.555556p-2f * x + 0.5f;
  }
};
struct Gelu {
  D5_INLINE static float half(float x) { return half_of_erf(x * 0x1.6a09e6p-1f); }
  D5_INLINE static float value(float x, const Parameters&) { return x * half(x); }
  D5_INLINE static float slope(float x, const Parameters&) {
    return half(x) + x * 0x1.988454p-2f * exp_of(-0.5f * x * x);  // 1 / sqrt(2 pi)
  }
};
struct GeluByTanh {  // (1 + tanh g) / 2 = sigmoid(2 g), g = sqrt(2 / pi) (x + 0.044715 x^3)
  D5_INLINE static float twice_g(float x) { return 0x1.988454p+0f * (x + 0x1.6e4e26p-5f * x * x * x); }
  D5_INLINE static float value(float x, const Parameters&) { return x * sigmoid_of(twice_g(x)); }
  D5_INLINE static float slope(float x, const Parameters&) {
    const float z = twice_g(x), e = exp_of(-absolute(z)), s = 1.0f / (1.0f + e);
    const float half = z < 0.0f ? e * s : s;
    return half + x * e * s * s * (0x1.988454p+0f * (1.0f + 3.0f * 0x1.6e4e26p-5f * x * x));
  }
};
struct Softplus {
  D5_INLINE static float value(float x, const Parameters&) { return softplus_of(x); }
  D5_INLINE static float slope(float x, const Parameters&) { return sigmoid_of(x); }
};
struct Softsign {
  D5_INLINE static float value(float x, const Parameters&) { return x / (1.0f + absolute(x)); }
  D5_INLINE static float slope(float x, const Parameters&) {
    const float s = 1.0f / (1.0f + absolute(x));
    return s * s;
  }
};
// tanh(softplus x) = (e^2 + 2 e) / (e^2 + 2 e + 2) with e = exp x; beyond 20 it is 1.
struct Mish {
  D5_INLINE static float value(float x, const Parameters&) {
    const float e = exp_of(smaller(x, 20.0f)), n = e * (e + 2.0f);
    return x * (n / (n + 2.0f));
  }
  D5_INLINE static float slope(float x, const Parameters&) {  // 1 - t^2 = 4 (n + 1) / (n + 2)^2
    const float e = exp_of(smaller(x, 20.0f)), n = e * (e + 2.0f), r = 1.0f / (n + 2.0f);
    return n * r + x * 4.0f * (n + 1.0f) * r * r * sigmoid_of(x);
  }
};
struct Swish {  // a: alpha
  D5_INLINE static float value(float x, const Parameters& p) { return x * sigmoid_of(p.a * x); }
  D5_INLINE static float slope(float x, const Parameters& p) {
    const float z = p.a * x, e = exp_of(-absolute(z)), s = 1.0f / (1.0f + e);
    return (z < 0.0f ? e * s : s) + z * e * s * s;
  }
};

}  // namespace

const TileFunctions activation_functions[] = {
    unary<Relu>("Relu"),           unary<LeakyRelu>("LeakyRelu"), unary<ThresholdedRelu>("ThresholdedRelu"),
    unary<Exponential>("Elu"),     unary<Exponential>("Celu"),    unary<Exponential>("Selu"),
    unary<Sigmoid>("Sigmoid"),     unary<Tanh>("Tanh"),           unary<HardSigmoid>("HardSigmoid"),
    unary<HardSwish>("HardSwish"), unary<Gelu>("Gelu"),           unary<GeluByTanh>("Gelu tanh"),
    unary<Softplus>("Softplus"),   unary<Softsign>("Softsign"),   unary<Mish>("Mish"),
    unary<Swish>("Swish"),
};
const size_t activation_count = sizeof activation_functions / sizeof activation_functions[0];

}  // namespace d5::onednn::own::D5_ISA
