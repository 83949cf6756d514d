// SPDX-License-Identifier: Apache-2.0
// Cross entropy of the softmax of scores (ONNX SoftmaxCrossEntropyLoss). The second output is z.
//   z = log softmax(x) over the classes      dx = dz - softmax(x) sum dz (see class_loss.hpp, log_softmax.hpp)
#include "d5/operators/class_loss.hpp"
#include "d5/operators/log_softmax.hpp"

namespace d5 {
namespace {

constexpr Index classes = 1;  // their axis

struct SoftmaxCrossEntropy {
  static constexpr std::string_view place = "[softmax_cross_entropy_loss]";
  static constexpr bool gives_z = true;
  static constexpr double low = -4, high = 4;
  static constexpr double flops[2] = {5, 4};
  static double terms(Index count) { return static_cast<double>(count); }
  static Tensor z(const Tensor& x) {
    Tensor result(DType::f64, x.shape());
    log_softmax(classes, x, result);
    return result;
  }
  static Tensor chain(const Tensor& z, const Tensor&, const Tensor& dz) {
    Tensor dx(DType::f64, z.shape());
    log_softmax_gradient(classes, z, dz, dx);
    return dx;
  }
  static Tensor z_error(const Tensor& x) { return log_softmax_error(classes, x); }
  static Tensor chain_error(const Tensor& z, const Tensor& x, const Tensor& dz) {
    return log_softmax_gradient_error(classes, z, z_error(x), dz);
  }
};

}  // namespace
D5_REGISTER(operators, "SoftmaxCrossEntropyLoss", ClassLoss<SoftmaxCrossEntropy>);
}  // namespace d5
