// SPDX-License-Identifier: Apache-2.0
// Signum (Bernstein et al., 2018), an optimizer that deep500 does not have: momentum of which only the sign is used.
//   m = mu m + (1 - mu) g
//   p = p - lr sign(m)
#include "d5/training/optimizer.hpp"

namespace {

using namespace d5;

class Signum final : public UpdateRule {
 public:
  static constexpr const char* about = "Signum (Bernstein et al., 2018)";
  static std::vector<Parameter> parameters() {
    return {{"learning_rate", "length of a step", 1e-4}, {"mu", "decay of the mean of gradients", 0.9}};
  }

  explicit Signum(const Attributes& a) : mu_(a.real("mu", 0)) {}

  // Recorded once, then run fused over all parameters.
  void record(Formula& f) const override {
    auto [p, g] = f.parameter_and_gradient();
    auto m = f.state("m");
    m = mu_ * m + (1 - mu_) * g;
    p -= f.scalar("learning_rate") * sign(m);
  }

 private:
  double mu_;
};

}  // namespace

D5_REGISTER(optimizers, "signum", Signum);
