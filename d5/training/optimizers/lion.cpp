// SPDX-License-Identifier: Apache-2.0
// Lion (Chen et al., 2023).
//   p = (1 - lr weight_decay) p - lr sign(b1 m + (1 - b1) g)
//   m = b2 m + (1 - b2) g
#include "d5/training/optimizer.hpp"

namespace d5 {
namespace {

class Lion final : public UpdateRule {
 public:
  static constexpr const char* about = "Lion (Chen et al., 2023)";
  static std::vector<Parameter> parameters() {
    return {{"learning_rate", "length of a step", 1e-4},
            {"beta1", "share of the mean in the direction", 0.9},
            {"beta2", "decay of the mean", 0.99}};
  }
  static std::vector<Limit> limits() { return {{"beta1", 1}, {"beta2", 1}}; }

  explicit Lion(const Attributes& a) : beta1_(a.real("beta1", 0)), beta2_(a.real("beta2", 0)) {}

  void record(Formula& f) const override {
    auto [p, g] = f.parameter_and_gradient();
    auto m = f.state("m");
    const auto rate = f.scalar("learning_rate"), decay = f.per_parameter("weight_decay");
    p = (1 - rate * decay) * p - rate * sign(beta1_ * m + (1 - beta1_) * g);
    m = beta2_ * m + (1 - beta2_) * g;
  }

 private:
  double beta1_, beta2_;
};

}  // namespace
D5_REGISTER(optimizers, "lion", Lion);
}  // namespace d5
