// SPDX-License-Identifier: Apache-2.0
// LAMB (You et al., 2020): Adam whose step is as long as each parameter's norm says.
//   m = b1 m + (1 - b1) g      v = b2 v + (1 - b2) g^2
//   r = (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps) + weight_decay p
//   p = p - lr (|p| / |r|) r                 the ratio is 1 where a norm is 0, and for what is excluded from decay
#include "d5/training/optimizer.hpp"

namespace d5 {
namespace {

class Lamb final : public UpdateRule {
 public:
  static constexpr const char* about = "LAMB (You et al., 2020)";
  static std::vector<Parameter> parameters() {
    return {{"learning_rate", "step size", 0.001},
            {"beta1", "decay of the mean of gradients", 0.9},
            {"beta2", "decay of the mean of their squares", 0.999},
            {"epsilon", "added to the denominator", 1e-6},
            {"weight_decay", "of parameters, within the step", 0.01}};
  }
  static std::vector<Limit> limits() { return {{"beta1", 1, false}, {"beta2", 1, false}, {"epsilon"}}; }

  explicit Lamb(const Attributes& a)
      : beta1_(a.real("beta1", 0)), beta2_(a.real("beta2", 0)), epsilon_(a.real("epsilon", 0)) {}

  void record(Formula& f) const override {
    auto [p, g] = f.parameter_and_gradient();
    auto m = f.state("m"), v = f.state("v");
    const auto rate = f.scalar("learning_rate"), t = f.scalar("step"), decay = f.per_parameter("weight_decay");
    m = beta1_ * m + (1 - beta1_) * g;
    v = beta2_ * v + (1 - beta2_) * square(g);
    const auto mean = 1 / (1 - pow(beta1_, t)), mean_square = 1 / (1 - pow(beta2_, t));
    const auto r = mean * m / (sqrt(mean_square * v) + epsilon_) + decay * p;
    const auto size = f.norm(p), step = f.norm(r), adapted = 1 - f.per_parameter("excluded");
    p -= rate * where_positive(adapted * size * step, size / step, 1.0) * r;
  }

 private:
  double beta1_, beta2_, epsilon_;
};

}  // namespace
D5_REGISTER(optimizers, "lamb", Lamb);
}  // namespace d5
