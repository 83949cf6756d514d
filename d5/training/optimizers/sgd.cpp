// SPDX-License-Identifier: Apache-2.0
// Gradient descent (Robbins and Monro, 1951).
//   p = p - lr g
#include "d5/training/optimizer.hpp"

namespace d5 {
namespace {

class GradientDescent final : public UpdateRule {
 public:
  static constexpr const char* about = "gradient descent (Robbins and Monro, 1951)";
  static std::vector<Parameter> parameters() { return {{"learning_rate", "step size", 0.01}}; }

  explicit GradientDescent(const Attributes&) {}

  void record(Formula& f) const override {
    auto [p, g] = f.parameter_and_gradient();
    p -= f.scalar("learning_rate") * g;
  }
};

}  // namespace
D5_REGISTER(optimizers, "sgd", GradientDescent);
}  // namespace d5
