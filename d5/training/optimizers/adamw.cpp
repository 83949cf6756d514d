// SPDX-License-Identifier: Apache-2.0
// AdamW: Adam with decoupled weight decay (Loshchilov and Hutter, 2019).
//   m = b1 m + (1 - b1) g      v = b2 v + (1 - b2) g^2
//   p = (1 - lr weight_decay) p - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
#include "d5/training/optimizer.hpp"

namespace d5 {
namespace {

class AdamW final : public UpdateRule {
 public:
  static constexpr const char* about = "Adam with decoupled weight decay (Loshchilov and Hutter, 2019)";
  static std::vector<Parameter> parameters() {
    return {{"learning_rate", "step size", 0.001},
            {"beta1", "decay of the mean of gradients", 0.9},
            {"beta2", "decay of the mean of their squares", 0.999},
            {"epsilon", "added to the denominator", 1e-8},
            {"weight_decay", "share of the parameter, times the step size, that is taken away", 0.01}};
  }
  static std::vector<Limit> limits() { return {{"beta1", 1, false}, {"beta2", 1, false}, {"epsilon"}}; }

  explicit AdamW(const Attributes& a)
      : beta1_(a.real("beta1", 0)), beta2_(a.real("beta2", 0)), epsilon_(a.real("epsilon", 0)) {}

  void record(Formula& f) const override {
    auto [p, g] = f.parameter_and_gradient();
    auto m = f.state("m"), v = f.state("v");
    const auto rate = f.scalar("learning_rate"), t = f.scalar("step"), decay = f.per_parameter("weight_decay");
    m = beta1_ * m + (1 - beta1_) * g;
    v = beta2_ * v + (1 - beta2_) * square(g);
    p = (1 - rate * decay) * p - rate * (m / (1 - pow(beta1_, t))) / (sqrt(v / (1 - pow(beta2_, t))) + epsilon_);
  }

 private:
  double beta1_, beta2_, epsilon_;
};

}  // namespace
D5_REGISTER(optimizers, "adamw", AdamW);
}  // namespace d5
