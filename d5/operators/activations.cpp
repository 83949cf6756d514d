// SPDX-License-Identifier: Apache-2.0
// Activations of one number (ONNX LeakyRelu, Elu, ..., Swish), one struct each: y, dy/dx and how both err (see
// elementwise.hpp). The errors are those of the formula as it is usually computed, which stands in the comment.
#include <algorithm>
#include <numbers>

#include "d5/operators/elementwise.hpp"

namespace d5 {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
// exp(-x) errs by 1 + |x| and reaches y with the share 1 - y.
double sigmoid_error(double x) { return sigmoid(x) * (1 + std::abs(x) * sigmoid(-x)); }
// 1 - 2 / (exp(2 x) + 1): exp(2 x) errs by 1 + 2 |x| and reaches y with half the slope.
double tanh_error(double x) {
  const double y = std::tanh(x), slope = (1 - y) * (1 + y);
  return std::abs(y) + slope * (0.5 + std::abs(x));
}
double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }
// log(1 + exp(x)): the sum is rounded, which is 1 in the logarithm; exp(x) reaches it with the share of the slope.
double softplus_error(double x) { return softplus(x) + 1 + sigmoid(x) * (1 + std::abs(x)); }

struct LeakyRelu : Function {  // alpha x for x < 0
  static constexpr std::string_view place = "[leaky_relu]";
  explicit LeakyRelu(const Attributes& a) : alpha(a.real("alpha", 0.01)) {}
  static std::vector<Parameter> parameters() { return {{"alpha", "slope for x < 0", 0.01}}; }
  static std::vector<Attributes> attribute_cases() { return {{{"alpha", 0.3}}}; }
  double operator()(double x) const { return x < 0 ? alpha * x : x; }
  double slope(double x) const { return x > 0 ? 1 : alpha; }
  double error(double x) const { return std::abs((*this)(x)); }
  double slope_error(double x) const { return std::abs(slope(x)); }
  double alpha;
};

struct ThresholdedRelu : Function {  // x for x > alpha, else 0
  static constexpr std::string_view place = "[thresholded_relu]";
  static constexpr bool exact = true;
  explicit ThresholdedRelu(const Attributes& a) : alpha(a.real("alpha", 1)) {}
  static std::vector<Parameter> parameters() { return {{"alpha", "threshold", 1.0}}; }
  static std::vector<Attributes> attribute_cases() { return {{{"alpha", 2.0}}}; }
  double operator()(double x) const { return x <= alpha ? 0 : x; }
  double slope(double x) const { return x > alpha ? 1 : 0; }
  double alpha;
};

struct Shrink : Function {  // x + bias for x < -lambd, x - bias for x > lambd, else 0; integers are rounded to zero
  static constexpr std::string_view place = "[shrink]";
  static constexpr auto types = number_types;
  static constexpr bool integers = true;
  explicit Shrink(const Attributes& a) : lambd(a.real("lambd", 0.5)), bias(a.real("bias", 0)) {}
  static std::vector<Parameter> parameters() {
    return {{"lambd", "half the width of the gap", 0.5}, {"bias", "how far what is outside moves to zero", 0.0}};
  }
  static std::vector<Attributes> attribute_cases() { return {{{"lambd", 1.5}, {"bias", 1.5}}}; }
  template <class T>
  T operator()(T value) const {
    const auto x = static_cast<double>(value);
    return static_cast<T>(x < -lambd ? x + bias : x > lambd ? x - bias : x != x ? x : 0.0);
  }
  double slope(double x) const { return std::abs(x) > lambd ? 1 : 0; }
  double error(double x) const { return std::abs(x) > lambd ? std::abs(x) + std::abs(bias) : 0; }
  double slope_error(double x) const { return slope(x); }
  double lambd, bias;
};

// gain (exp(x / width) - 1) for x <= 0, scale x above. The exponential errs by 1 + |x / width|, then 1 is taken off.
// The slope is gain / width exp(x / width), or (y + gain) / width of the stored y.
struct Exponential : Function {
  Exponential(double g, double w, double s) : gain(g), width(w), scale(s) {}
  static constexpr double flops[2] = {3, 4};
  double operator()(double x) const { return x <= 0 ? gain * std::expm1(x / width) : scale * x; }
  double slope(double x) const { return x <= 0 ? gain / width * std::exp(x / width) : scale; }
  double error(double x) const {
    const double z = x / width;
    return x <= 0 ? std::abs(gain) * (1 + std::exp(z) * (1 + std::abs(z))) : std::abs(scale * x);
  }
  double slope_error(double x) const { return std::abs(slope(x)) + (x <= 0 ? error(x) / std::abs(width) : 0); }
  double gain, width, scale;
};
struct Elu : Exponential {
  static constexpr std::string_view place = "[elu]";
  explicit Elu(const Attributes& a) : Exponential(a.real("alpha", 1), 1, 1) {}
  static std::vector<Parameter> parameters() { return {{"alpha", "minus the limit at -infinity", 1.0}}; }
  static std::vector<Attributes> attribute_cases() { return {{{"alpha", 2.0}}}; }
};
struct Celu : Exponential {
  static constexpr std::string_view place = "[celu]";
  explicit Celu(const Attributes& a) : Exponential(a.real("alpha", 1), a.real("alpha", 1), 1) {
    if (width == 0) throw Error("[celu] alpha is 0; another number is wanted, x is divided by it");
  }
  static std::vector<Parameter> parameters() { return {{"alpha", "minus the limit at -infinity", 1.0}}; }
  static std::vector<Attributes> attribute_cases() { return {{{"alpha", 2.0}}}; }
};
struct Selu : Exponential {  // Klambauer et al., 2017; the constants as ONNX has them, in f32
  static constexpr std::string_view place = "[selu]";
  static constexpr double default_alpha = 1.67326319217681884765625, default_gamma = 1.05070102214813232421875;
  explicit Selu(const Attributes& a)
      : Exponential(a.real("gamma", default_gamma) * a.real("alpha", default_alpha), 1,
                    a.real("gamma", default_gamma)) {}
  static std::vector<Parameter> parameters() {
    return {{"alpha", "minus the limit at -infinity, before gamma", default_alpha},
            {"gamma", "factor of everything", default_gamma}};
  }
  static std::vector<Attributes> attribute_cases() { return {{{"alpha", 2.0}, {"gamma", 3.0}}}; }
};

struct Sigmoid : Function {  // 1 / (1 + exp(-x)); the slope is y (1 - y), of the stored y
  static constexpr std::string_view place = "[sigmoid]";
  static constexpr double flops[2] = {3, 3};
  double operator()(double x) const { return sigmoid(x); }
  double slope(double x) const { return sigmoid(x) * sigmoid(-x); }
  double error(double x) const { return sigmoid_error(x); }
  double slope_error(double x) const { return 2 * slope(x) + std::abs(sigmoid(-x) - sigmoid(x)) * sigmoid_error(x); }
};

struct Tanh : Function {  // the slope is 1 - y^2, of the stored y
  static constexpr std::string_view place = "[tanh]";
  static constexpr double flops[2] = {1, 3};
  double operator()(double x) const { return std::tanh(x); }
  double slope(double x) const {
    const double y = std::tanh(x);
    return (1 - y) * (1 + y);
  }
  double error(double x) const { return tanh_error(x); }
  double slope_error(double x) const {
    const double y = std::abs(std::tanh(x));
    return slope(x) + y * y + 2 * y * tanh_error(x);
  }
};

// max(0, min(1, alpha x + beta)): both terms are rounded. Where the line meets 0 or 1, within that rounding, the slope
// is alpha or 0.
struct Ramp {
  double alpha, beta;
  double line(double x) const { return alpha * x + beta; }
  double size(double x) const { return std::abs(alpha * x) + std::abs(beta); }
  double value(double x) const { return std::isnan(x) ? x : std::clamp(line(x), 0.0, 1.0); }
  bool rises(double x) const { return line(x) > 0 && line(x) < 1; }
  bool bends(double x, double round_off = 0x1p-24) const {
    return std::min(std::abs(line(x)), std::abs(line(x) - 1)) <= 4 * round_off * size(x);
  }
};

struct HardSigmoid : Function {
  static constexpr std::string_view place = "[hard_sigmoid]";
  static constexpr double flops[2] = {4, 4};
  explicit HardSigmoid(const Attributes& a) : ramp{a.real("alpha", 0.2), a.real("beta", 0.5)} {}
  static std::vector<Parameter> parameters() {
    return {{"alpha", "slope of the line", 0.2}, {"beta", "its value at 0", 0.5}};
  }
  static std::vector<Attributes> attribute_cases() { return {{{"alpha", 0.5}, {"beta", 0.6}}}; }
  double operator()(double x) const { return ramp.value(x); }
  double slope(double x) const { return ramp.rises(x) ? ramp.alpha : 0; }
  double error(double x) const { return ramp.rises(x) || ramp.bends(x, round_off) ? ramp.size(x) : 0; }
  double slope_error(double x) const {
    return std::abs(slope(x)) + (ramp.bends(x, round_off) ? undecided * std::abs(ramp.alpha) : 0);
  }
  Ramp ramp;
  double round_off = 0x1p-24;
};

struct HardSwish : Function {  // x max(0, min(1, x / 6 + 1 / 2)); slope x / 3 + 1 / 2 on the ramp
  static constexpr std::string_view place = "[hard_swish]";
  static constexpr double flops[2] = {5, 5};
  double operator()(double x) const { return x * ramp.value(x); }
  double slope(double x) const { return ramp.rises(x) ? x / 3 + 0.5 : ramp.value(x); }
  double error(double x) const { return std::abs(x) * (ramp.rises(x) || ramp.bends(x) ? ramp.size(x) : ramp.value(x)); }
  double slope_error(double x) const {  // the jump at both bends is 1/2
    return (ramp.rises(x) ? std::abs(x) / 3 + 0.5 : ramp.value(x)) + (ramp.bends(x) ? undecided * 0.5 : 0);
  }
  static constexpr Ramp ramp{1.0 / 6, 0.5};
};

// x (1 + erf(x / sqrt 2)) / 2, or with approximate = tanh: x (1 + tanh g) / 2, g = sqrt(2 / pi) (x + 0.044715 x^3).
// Both cancel for negative x.
struct Gelu : Function {
  static constexpr std::string_view place = "[gelu]";
  static constexpr double flops[2] = {5, 9};
  explicit Gelu(const Attributes& a) {
    const std::string word = a.text("approximate", "none");
    if (word != "none" && word != "tanh") throw UsageError("[gelu] approximate is '{}'; legal: none, tanh", word);
    by_tanh = word == "tanh";
  }
  static std::vector<Parameter> parameters() { return {{"approximate", "none or tanh", "none"}}; }
  static std::vector<Attributes> attribute_cases() { return {{{"approximate", "tanh"}}}; }

  double operator()(double x) const { return x * half(x); }
  double slope(double x) const {  // (1 + t) / 2 + x t' / 2
    return half(x) + x * density(x);
  }
  double error(double x) const { return std::abs(x) * half_error(x); }
  double slope_error(double x) const { return half_error(x) + std::abs(x) * density_error(x); }

 private:
  static double g(double x) { return std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x); }
  static double g_slope(double x) { return std::sqrt(2 / std::numbers::pi) * (1 + 3 * 0.044715 * x * x); }
  static double tanh_slope(double z) { return 1 / (std::cosh(z) * std::cosh(z)); }
  double half(double x) const { return by_tanh ? sigmoid(2 * g(x)) : 0.5 * std::erfc(-x / std::numbers::sqrt2); }
  double half_error(double x) const {
    if (by_tanh) return 0.5 * (1 + tanh_error(g(x)));
    return 0.5 * (1 + std::abs(std::erf(x / std::numbers::sqrt2))) + std::abs(x) * density(x);
  }
  double density(double x) const {
    if (by_tanh) return 0.5 * tanh_slope(g(x)) * g_slope(x);
    return std::exp(-0.5 * x * x) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
  }
  double density_error(double x) const {  // 1 - t^2 of a tanh that errs; or the exponential of a rounded square
    if (!by_tanh) return density(x) * (1 + x * x);
    const double t = std::abs(std::tanh(g(x)));
    return 0.5 * g_slope(x) * (1 + t * t + 2 * t * tanh_error(g(x)));
  }
  bool by_tanh = false;
};

struct Softplus : Function {  // log(1 + exp(x))
  static constexpr std::string_view place = "[softplus]";
  static constexpr double flops[2] = {3, 4};
  double operator()(double x) const { return softplus(x); }
  double slope(double x) const { return sigmoid(x); }
  double error(double x) const { return softplus_error(x); }
  double slope_error(double x) const { return sigmoid_error(x); }
};

struct Softsign : Function {  // x / (1 + |x|)
  static constexpr std::string_view place = "[softsign]";
  static constexpr double flops[2] = {3, 4};
  double operator()(double x) const { return x / (1 + std::abs(x)); }
  double slope(double x) const { return 1 / ((1 + std::abs(x)) * (1 + std::abs(x))); }
  double error(double x) const { return std::abs((*this)(x)); }
  double slope_error(double x) const { return 4 * slope(x); }  // the sum, twice; its square; the reciprocal
};

struct Mish : Function {  // x tanh(softplus(x)); with t = tanh(softplus(x)) the slope is t + x (1 - t^2) sigmoid(x)
  static constexpr std::string_view place = "[mish]";
  static constexpr double flops[2] = {5, 10};
  double operator()(double x) const { return x * std::tanh(softplus(x)); }
  double slope(double x) const {
    const double t = std::tanh(softplus(x));
    return t + x * (1 - t) * (1 + t) * sigmoid(x);
  }
  double error(double x) const { return std::abs(x) * inner_error(x); }
  double slope_error(double x) const {
    const double t = std::tanh(softplus(x)), flat = (1 - t) * (1 + t);
    return inner_error(x) +
           std::abs(x) * ((flat + t * t + 2 * t * inner_error(x)) * sigmoid(x) + flat * sigmoid_error(x));
  }

 private:
  static double inner_error(double x) {  // of t: that of tanh, and of its argument
    const double s = softplus(x), t = std::tanh(s);
    return tanh_error(s) + (1 - t) * (1 + t) * softplus_error(x);
  }
};

struct Swish : Function {  // x sigmoid(alpha x); slope s + alpha x s (1 - s)
  static constexpr std::string_view place = "[swish]";
  static constexpr double flops[2] = {5, 8};
  explicit Swish(const Attributes& a) : alpha(a.real("alpha", 1)) {}
  static std::vector<Parameter> parameters() { return {{"alpha", "factor of x in the sigmoid", 1.0}}; }
  static std::vector<Attributes> attribute_cases() { return {{{"alpha", 1.702}}}; }
  double operator()(double x) const { return x * sigmoid(alpha * x); }
  double slope(double x) const {
    const double z = alpha * x;
    return sigmoid(z) * (1 + z * sigmoid(-z));
  }
  double error(double x) const { return std::abs(x) * sigmoid_error(alpha * x); }
  double slope_error(double x) const {  // of s (1 + z (1 - s)): each factor, and 1 - s of an s that errs
    const double z = alpha * x, s = sigmoid(z);
    return sigmoid_error(z) * (1 + std::abs(z) * (1 - s)) + s * (1 + std::abs(z) * (1 + sigmoid_error(z)));
  }
  double alpha;
};

}  // namespace
D5_REGISTER(operators, "LeakyRelu", Unary<LeakyRelu>);
D5_REGISTER(operators, "Shrink", Unary<Shrink>);
D5_REGISTER(operators, "ThresholdedRelu", Unary<ThresholdedRelu>);
D5_REGISTER(operators, "Elu", Unary<Elu>);
D5_REGISTER(operators, "Celu", Unary<Celu>);
D5_REGISTER(operators, "Selu", Unary<Selu>);
D5_REGISTER(operators, "Sigmoid", Unary<Sigmoid>);
D5_REGISTER(operators, "Tanh", Unary<Tanh>);
D5_REGISTER(operators, "HardSigmoid", Unary<HardSigmoid>);
D5_REGISTER(operators, "HardSwish", Unary<HardSwish>);
D5_REGISTER(operators, "Gelu", Unary<Gelu>);
D5_REGISTER(operators, "Softplus", Unary<Softplus>);
D5_REGISTER(operators, "Softsign", Unary<Softsign>);
D5_REGISTER(operators, "Mish", Unary<Mish>);
D5_REGISTER(operators, "Swish", Unary<Swish>);
}  // namespace d5
