// SPDX-License-Identifier: Apache-2.0
// LARS (You, Gitman and Ginsburg, 2017): momentum with a rate of its own for each parameter.
//   q = trust |p| / (|g| + weight_decay |p| + eps)     1 where a norm is 0, and for what is excluded from decay
//   v = mu v + lr q (g + weight_decay p)
//   p = p - v
#include "d5/training/optimizer.hpp"

namespace d5 {
namespace {

class Lars final : public UpdateRule {
 public:
  static constexpr const char* about = "LARS (You, Gitman and Ginsburg, 2017)";
  static std::vector<Parameter> parameters() {
    return {{"learning_rate", "step size", 0.1},
            {"mu", "share of the last step that is kept", 0.9},
            {"trust", "length of a step, as a share of the parameter", 0.001},
            {"epsilon", "added to the denominator", 0.0},
            {"weight_decay", "of parameters, within the step", 1e-4}};
  }
  static std::vector<Limit> limits() { return {{"mu", 1}, {"trust"}, {"epsilon"}}; }

  explicit Lars(const Attributes& a)
      : mu_(a.real("mu", 0)), trust_(a.real("trust", 0)), epsilon_(a.real("epsilon", 0)) {}

  void record(Formula& f) const override {
    auto [p, g] = f.parameter_and_gradient();
    auto v = f.state("v");
    const auto decay = f.per_parameter("weight_decay"), adapted = 1 - f.per_parameter("excluded");
    const auto size = f.norm(p), slope = f.norm(g);
    const auto q = where_positive(adapted * size * slope, trust_ * size / (slope + decay * size + epsilon_), 1.0);
    v = mu_ * v + f.scalar("learning_rate") * q * (g + decay * p);
    p -= v;
  }

 private:
  double mu_, trust_, epsilon_;
};

}  // namespace
D5_REGISTER(optimizers, "lars", Lars);
}  // namespace d5
