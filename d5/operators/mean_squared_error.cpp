// SPDX-License-Identifier: Apache-2.0
// Squared error of predictions a against targets b, reduced (mean unless told otherwise).
//   l = (a - b)^2      dl/da = 2 (a - b)      dl/db = -2 (a - b)
#include "d5/operators/loss.hpp"

namespace d5 {
namespace {

struct SquaredError {
  static constexpr std::string_view place = "[mean_squared_error]";
  static constexpr bool integer_exact = true;
  static constexpr double units = 3;  // the difference, which counts twice, and the square
  static constexpr double low = -1, high = 1, target_low = -1.1, target_high = 1.2;
  static constexpr double flops[2] = {2, 3};
  double operator()(double a, double b) const { return (a - b) * (a - b); }
  double slope(size_t input, double a, double b) const { return input == 0 ? 2 * (a - b) : 2 * (b - a); }
  double error(double a, double b) const { return (*this)(a, b); }
  double slope_error(size_t, double a, double b) const { return 3 * std::abs(2 * (a - b)); }  // 2, dy and 1 / count
};

}  // namespace
D5_REGISTER(operators, "MeanSquaredError", ElementLoss<SquaredError>);
}  // namespace d5
