// SPDX-License-Identifier: Apache-2.0
// RMSProp (Tieleman and Hinton, 2012); centred and with momentum as in Graves (2013).
//   v = alpha v + (1 - alpha) g^2            centred: m = alpha m + (1 - alpha) g,  v - m^2 below
//   p = p - lr g / (sqrt(v) + eps)           mu > 0:  b = mu b + g / (sqrt(v) + eps),  p = p - lr b
#include "d5/training/optimizer.hpp"

namespace d5 {
namespace {

class RmsProp final : public UpdateRule {
 public:
  static constexpr const char* about = "RMSProp (Tieleman and Hinton, 2012)";
  static std::vector<Parameter> parameters() {
    return {{"learning_rate", "step size", 0.01},
            {"alpha", "decay of the mean of squares", 0.99},
            {"epsilon", "added to the denominator", 1e-8},
            {"mu", "momentum; 0: none", 0.0},
            {"centred", "divide by the deviation from the mean gradient", false}};
  }
  static std::vector<Limit> limits() { return {{"alpha", 1}, {"epsilon"}, {"mu", 1}}; }

  explicit RmsProp(const Attributes& a)
      : alpha_(a.real("alpha", 0)),
        epsilon_(a.real("epsilon", 0)),
        mu_(a.real("mu", 0)),
        centred_(a.flag("centred", false)) {}

  void record(Formula& f) const override {
    auto [p, g] = f.parameter_and_gradient();
    auto v = f.state("v");
    const auto rate = f.scalar("learning_rate");
    v = alpha_ * v + (1 - alpha_) * square(g);
    Expression variance = v;
    if (centred_) {
      auto m = f.state("m");
      m = alpha_ * m + (1 - alpha_) * g;
      variance = variance - square(m);
    }
    Expression direction = g / (sqrt(variance) + epsilon_);
    if (mu_ > 0) {
      auto b = f.state("b");
      b = mu_ * b + direction;
      direction = b;
    }
    p -= rate * direction;
  }

 private:
  double alpha_, epsilon_, mu_;
  bool centred_;
};

}  // namespace
D5_REGISTER(optimizers, "rmsprop", RmsProp);
}  // namespace d5
