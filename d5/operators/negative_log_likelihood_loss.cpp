// SPDX-License-Identifier: Apache-2.0
// Negative log likelihood (ONNX NegativeLogLikelihoodLoss): the scores are logarithms of probabilities.
//   z = x      dx = dz (see class_loss.hpp)
#include "d5/operators/class_loss.hpp"

namespace d5 {
namespace {

struct NegativeLogLikelihood {
  static constexpr std::string_view place = "[negative_log_likelihood_loss]";
  static constexpr bool gives_z = false;
  static constexpr double low = -5, high = -0.1;
  static constexpr double flops[2] = {0, 0};  // those of the labels alone
  static double terms(Index) { return 0; }
  static Tensor z(const Tensor& x) { return x; }
  static Tensor chain(const Tensor&, const Tensor&, const Tensor& dz) { return dz; }
  static Tensor z_error(const Tensor& x) {
    Tensor error = x.clone();
    for (double& value : error.values<double>()) value = std::abs(value);
    return error;
  }
  static Tensor chain_error(const Tensor&, const Tensor&, const Tensor& dz) { return dz; }
};

}  // namespace
D5_REGISTER(operators, "NegativeLogLikelihoodLoss", ClassLoss<NegativeLogLikelihood>);
}  // namespace d5
