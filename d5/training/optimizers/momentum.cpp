// SPDX-License-Identifier: Apache-2.0
// Gradient descent with momentum (Polyak, 1964; in the form of Sutskever et al., 2013, as frameworks have it).
//   v = mu v + (1 - dampening) g
//   p = p - lr v
#include "d5/training/optimizer.hpp"

namespace d5 {
namespace {

class Momentum final : public UpdateRule {
 public:
  static constexpr const char* about = "gradient descent with momentum (Polyak, 1964)";
  static std::vector<Parameter> parameters() {
    return {{"learning_rate", "step size", 0.01},
            {"mu", "share of the last direction that is kept", 0.9},
            {"dampening", "share of the gradient that is left out", 0.0}};
  }
  static std::vector<Limit> limits() { return {{"mu", 1}}; }

  explicit Momentum(const Attributes& a) : mu_(a.real("mu", 0)), dampening_(a.real("dampening", 0)) {}

  void record(Formula& f) const override {
    auto [p, g] = f.parameter_and_gradient();
    auto v = f.state("v");
    v = mu_ * v + (1 - dampening_) * g;
    p -= f.scalar("learning_rate") * v;
  }

 private:
  double mu_, dampening_;
};

}  // namespace
D5_REGISTER(optimizers, "momentum", Momentum);
}  // namespace d5
