// SPDX-License-Identifier: Apache-2.0
// AdaGrad (Duchi, Hazan and Singer, 2011).
//   s = s + g^2
//   p = p - lr / (1 + (t - 1) rate_decay) g / (sqrt(s) + eps)
#include "d5/training/optimizer.hpp"

namespace d5 {
namespace {

class AdaGrad final : public UpdateRule {
 public:
  static constexpr const char* about = "AdaGrad (Duchi, Hazan and Singer, 2011)";
  static std::vector<Parameter> parameters() {
    return {{"learning_rate", "step size", 0.01},
            {"rate_decay", "decay of the step size with steps", 0.0},
            {"start", "what the sum of squares starts from", 0.0},
            {"epsilon", "added to the denominator", 1e-10}};
  }
  static std::vector<Limit> limits() { return {{"rate_decay"}, {"start"}, {"epsilon"}}; }

  explicit AdaGrad(const Attributes& a)
      : rate_decay_(a.real("rate_decay", 0)), start_(a.real("start", 0)), epsilon_(a.real("epsilon", 0)) {}

  void record(Formula& f) const override {
    auto [p, g] = f.parameter_and_gradient();
    auto s = f.state("s", Formula::Start::zero, start_);
    const auto rate = f.scalar("learning_rate") / (1 + (f.scalar("step") - 1) * rate_decay_);
    s += square(g);
    p -= rate * g / (sqrt(s) + epsilon_);
  }

 private:
  double rate_decay_, start_, epsilon_;
};

}  // namespace
D5_REGISTER(optimizers, "adagrad", AdaGrad);
}  // namespace d5
