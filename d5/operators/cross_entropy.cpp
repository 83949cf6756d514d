// SPDX-License-Identifier: Apache-2.0
// Cross entropy of probabilities (the result of a Softmax) against class labels; weights, ignore_index and reduction as
// in ONNX's losses.
//   z = log x      dx = dz / x (see class_loss.hpp)
#include "d5/operators/class_loss.hpp"

namespace d5 {
namespace {

struct CrossEntropy {
  static constexpr std::string_view place = "[cross_entropy]";
  static constexpr bool gives_z = false;
  static constexpr double low = 0.02, high = 1;
  static constexpr double flops[2] = {0, 0};  // those of the labels alone
  static double terms(Index) { return 0; }
  static Tensor z(const Tensor& x) {
    return each(x, [](double p) { return std::log(p); });
  }
  static Tensor chain(const Tensor&, const Tensor& x, const Tensor& dz) { return quotient(dz, x); }
  static Tensor z_error(const Tensor& x) {
    return each(x, [](double p) { return std::abs(std::log(p)) + 1; });
  }
  static Tensor chain_error(const Tensor&, const Tensor& x, const Tensor& dz) { return quotient(dz, x); }

 private:
  template <class F>
  static Tensor each(const Tensor& x, F&& f) {
    Tensor result = x.clone();
    for (double& value : result.values<double>()) value = f(value);
    return result;
  }
  // A score of 0 has a gradient of 0 where its label is another one.
  static Tensor quotient(const Tensor& dz, const Tensor& x) {
    Tensor result = dz.clone();
    const auto p = x.values<double>(), values = result.values<double>();
    for (size_t i = 0; i < p.size(); ++i)
      if (values[i] != 0) values[i] /= p[i];
    return result;
  }
};

}  // namespace
D5_REGISTER(operators, "CrossEntropy", ClassLoss<CrossEntropy>);
}  // namespace d5
