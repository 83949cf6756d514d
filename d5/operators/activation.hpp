// SPDX-License-Identifier: Apache-2.0
// The activations that ONNX's recurrent operators can be given by name, and a number with its error that runs through
// the same formulas as a plain one.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "d5/core/attributes.hpp"

namespace d5 {

// A value and a bound on its error. Rounding errors are independent of each other, so they add in squares: every
// operation adds |result| unit to what it inherits from its operands.
struct Bounded {
  double value = 0, error = 0, unit = 0;

  void disturb(double more) { error = std::sqrt(error * error + more * more); }
  static Bounded of(double value, double error_a, double error_b, double unit) {
    const double rounding = unit * value;
    return {value, std::sqrt(error_a * error_a + error_b * error_b + rounding * rounding), unit};
  }
};
inline Bounded operator+(const Bounded& a, const Bounded& b) {
  return Bounded::of(a.value + b.value, a.error, b.error, std::max(a.unit, b.unit));
}
inline Bounded operator-(const Bounded& a, const Bounded& b) {
  return Bounded::of(a.value - b.value, a.error, b.error, std::max(a.unit, b.unit));
}
inline Bounded operator*(const Bounded& a, const Bounded& b) {
  return Bounded::of(a.value * b.value, a.value * b.error, b.value * a.error, std::max(a.unit, b.unit));
}
inline Bounded operator*(double a, const Bounded& b) { return Bounded::of(a * b.value, a * b.error, 0, b.unit); }
inline Bounded operator-(double a, const Bounded& b) { return Bounded::of(a - b.value, b.error, 0, b.unit); }

struct Activation {
  double (*function)(double x, double alpha, double beta);
  double (*derivative)(double x, double alpha, double beta);
  double alpha = 0, beta = 0;
  double clip = std::numeric_limits<double>::infinity();  // the input is cut to -clip .. clip

  double operator()(double x) const { return function(std::min(std::max(x, -clip), clip), alpha, beta); }
  double slope(double x) const { return std::abs(x) > clip ? 0 : derivative(x, alpha, beta); }
  // The change over +- error, not slope * error: at a kink (Relu, clip) the slope jumps, far out it saturates.
  Bounded operator()(const Bounded& x) const {
    return around(x, [this](double v) { return (*this)(v); });
  }
  Bounded slope(const Bounded& x) const {
    return around(x, [this](double v) { return slope(v); });
  }

 private:
  template <class F>
  static Bounded around(const Bounded& x, F&& f) {
    const double y = f(x.value);
    const double change = std::max(std::abs(f(x.value + x.error) - y), std::abs(f(x.value - x.error) - y));
    return Bounded::of(y, change, 0, x.unit);
  }
};

// From the attributes activations, activation_alpha, activation_beta and clip: `otherwise` for each direction. A
// function that takes alpha (beta) takes the next of the list, or its own default where the list is short.
std::vector<Activation> read_activations(const Attributes&, const std::vector<std::string>& otherwise,
                                         size_t directions, std::string_view place);

}  // namespace d5
