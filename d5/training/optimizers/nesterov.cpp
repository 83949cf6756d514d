// SPDX-License-Identifier: Apache-2.0
// Nesterov's accelerated gradient (1983), in the form of Sutskever et al. (2013) with the parameter kept at the
// look-ahead point, as frameworks have it.
//   v = mu v + g
//   p = p - lr (g + mu v)
#include "d5/training/optimizer.hpp"

namespace d5 {
namespace {

class Nesterov final : public UpdateRule {
 public:
  static constexpr const char* about = "Nesterov's accelerated gradient (1983; Sutskever et al., 2013)";
  static std::vector<Parameter> parameters() {
    return {{"learning_rate", "step size", 0.01}, {"mu", "share of the last direction that is kept", 0.9}};
  }
  static std::vector<Limit> limits() { return {{"mu", 1}}; }

  explicit Nesterov(const Attributes& a) : mu_(a.real("mu", 0)) {}

  void record(Formula& f) const override {
    auto [p, g] = f.parameter_and_gradient();
    auto v = f.state("v");
    v = mu_ * v + g;
    p -= f.scalar("learning_rate") * (g + mu_ * v);
  }

 private:
  double mu_;
};

}  // namespace
D5_REGISTER(optimizers, "nesterov", Nesterov);
}  // namespace d5
