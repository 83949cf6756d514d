// SPDX-License-Identifier: Apache-2.0
// AdaDelta (Zeiler, 2012).
//   v = rho v + (1 - rho) g^2
//   d = sqrt(u + eps) / sqrt(v + eps) g
//   u = rho u + (1 - rho) d^2
//   p = p - lr d
#include "d5/training/optimizer.hpp"

namespace d5 {
namespace {

class AdaDelta final : public UpdateRule {
 public:
  static constexpr const char* about = "AdaDelta (Zeiler, 2012)";
  static std::vector<Parameter> parameters() {
    return {{"learning_rate", "factor of the step", 1.0},
            {"rho", "decay of both means of squares", 0.9},
            {"epsilon", "added under the roots", 1e-6}};
  }
  static std::vector<Limit> limits() { return {{"rho", 1}, {"epsilon"}}; }

  explicit AdaDelta(const Attributes& a) : rho_(a.real("rho", 0)), epsilon_(a.real("epsilon", 0)) {}

  void record(Formula& f) const override {
    auto [p, g] = f.parameter_and_gradient();
    auto v = f.state("v"), u = f.state("u");
    v = rho_ * v + (1 - rho_) * square(g);
    const auto d = sqrt(u + epsilon_) / sqrt(v + epsilon_) * g;
    u = rho_ * u + (1 - rho_) * square(d);
    p -= f.scalar("learning_rate") * d;
  }

 private:
  double rho_, epsilon_;
};

}  // namespace
D5_REGISTER(optimizers, "adadelta", AdaDelta);
}  // namespace d5
