// SPDX-License-Identifier: Apache-2.0
// Cross entropy of probabilities p of one class against targets t in [0, 1], reduced (mean unless told otherwise).
//   l = -t log p - (1 - t) log(1 - p)      dl/dp = (p - t) / (p (1 - p))      dl/dt = log(1 - p) - log p
// As in PyTorch logarithms are at least -100 and p (1 - p) at least 1e-12, so that 0 and 1 give finite losses.
#include <algorithm>

#include "d5/operators/loss.hpp"

namespace d5 {
namespace {

struct BinaryCrossEntropy {
  static constexpr std::string_view place = "[binary_cross_entropy]";
  static constexpr bool integer_exact = false;
  static constexpr double units = elementary_units;
  static constexpr double low = 0.02, high = 0.98, target_low = 0, target_high = 1;
  static constexpr double flops[2] = {7, 5};
  double operator()(double p, double t) const { return -t * log(p) - (1 - t) * log(1 - p); }
  double slope(size_t input, double p, double t) const {
    return input == 0 ? (p - t) / std::max(p * (1 - p), 1e-12) : log(1 - p) - log(p);
  }
  // A logarithm errs by itself and, its argument being rounded, by 1.
  double error(double p, double t) const { return t * (1 - log(p)) + (1 - t) * (1 - log(1 - p)); }
  // -t / p + (1 - t) / (1 - p) where it is made of two terms; each is a product of stored factors.
  double slope_error(size_t input, double p, double t) const {
    return input == 0 ? 3 * (t + p) / std::max(p * (1 - p), 1e-12) : 2 * (2 - log(p) - log(1 - p));
  }

 private:
  static double log(double x) { return std::max(std::log(x), -100.0); }
};

}  // namespace
D5_REGISTER(operators, "BinaryCrossEntropy", ElementLoss<BinaryCrossEntropy>);
}  // namespace d5
