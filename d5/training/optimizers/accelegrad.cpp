// SPDX-License-Identifier: Apache-2.0
// AcceleGrad (Levy, Yurtsever and Cevher, 2018), without the projection on a bounded set. Between steps the parameter
// is y; the gradient is taken at p = y + (z - y) / a, where prepare moves it. s is kept over the whole run.
//   a = max(1, t / 4)      s = s + a^2 |g|^2      h = 2 lr diameter / sqrt(bound^2 + s)
//   z = z - a h g          y = p - h g
#include "d5/training/optimizer.hpp"

namespace d5 {
namespace {

class AcceleGrad final : public UpdateRule {
 public:
  static constexpr const char* about = "AcceleGrad (Levy, Yurtsever and Cevher, 2018)";
  static std::vector<Parameter> parameters() {
    return {{"learning_rate", "factor of the step", 1.0},
            {"diameter", "how far the solution is from the start, about", 1.0},
            {"bound", "of the gradient's norm, about", 1.0}};
  }
  static std::vector<Limit> limits() { return {{"diameter"}, {"bound"}}; }

  explicit AcceleGrad(const Attributes& a) : diameter_(a.real("diameter", 0)), bound_(a.real("bound", 0)) {}

  void record_prepare(Formula& f) const override {
    auto p = f.parameter_and_gradient().parameter;
    auto z = f.state("z", Formula::Start::parameter);
    p += (z - p) / weight(f);
  }

  void record(Formula& f) const override {
    auto [p, g] = f.parameter_and_gradient();
    auto z = f.state("z", Formula::Start::parameter);
    auto s = f.scalar_state("s");
    const auto a = weight(f);
    s += square(a * f.global_norm(g));
    const auto h = 2 * diameter_ * f.scalar("learning_rate") / sqrt(bound_ * bound_ + s);
    z -= a * h * g;
    p -= h * g;
  }

 private:
  static Expression weight(Formula& f) { return max(1.0, f.scalar("step") / 4.0); }

  double diameter_, bound_;
};

}  // namespace
D5_REGISTER(optimizers, "accelegrad", AcceleGrad);
}  // namespace d5
