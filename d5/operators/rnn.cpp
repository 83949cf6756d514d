// SPDX-License-Identifier: Apache-2.0
// The simple recurrent network (ONNX RNN). Time, directions, products, gradients of weights: recurrent.hpp.
//   h_t = f(x_t W^T + h_{t-1} R^T + Wb + Rb)
//   da_t = dh_t f'(a_t)      dh_{t-1} = da_t R
#include "d5/operators/checks.hpp"
#include "d5/operators/recurrent.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[rnn]";

class Rnn final : public Recurrent {
 public:
  explicit Rnn(const Attributes& a) : Recurrent(a, {.place = place, .gates = 1, .activations = {"Tanh"}}) {
    check_attributes(
        a, {"activation_alpha", "activation_beta", "activations", "clip", "direction", "hidden_size", "layout"}, place);
  }

  static std::vector<Parameter> parameters() { return common_parameters({}); }
  static OperatorCase describe(const Attributes& v, DType type) { return common_case(v, type, 1, false, {}); }

  static std::vector<Attributes> cases() {
    return {{{"hidden", 1}, {"batch", 1}, {"timesteps", 1}},
            {{"hidden", 3}, {"batch", 2}, {"timesteps", 4}, {"input", 5}, {"bias", false}, {"states", false}},
            {{"hidden", 4}, {"batch", 3}, {"timesteps", 3}, {"activation", "Relu"}, {"initial_state", true}},
            {{"hidden", 3}, {"batch", 3}, {"timesteps", 5}, {"direction", "reverse"}, {"lengths", true}},
            {{"hidden", 2},
             {"batch", 3},
             {"timesteps", 4},
             {"input", 3},
             {"direction", "bidirectional"},
             {"lengths", true},
             {"initial_state", true},
             {"batch_first", true}},
            {{"hidden", 5}, {"batch", 2}, {"timesteps", 3}, {"activation", "LeakyRelu"}, {"clip", 0.4}},
            {{"hidden", 64}, {"batch", 4}, {"timesteps", 10}}};
  }

 private:
  template <class T>
  void forward_step(Step<T>& s) const {
    s.add_product(0, 1, s.h, s.a, s.hidden);
    const Activation& f = activation(s.direction, 0);
    s.for_each([&](Index, Index, Index e) { s.new_h[e] = f(s.a[e]); });
  }
  template <class T>
  void backward_step(BackStep<T>& s) const {
    const Activation& f = activation(s.direction, 0);
    s.for_each([&](Index, Index, Index e) { s.da[e] = s.dq[e] = s.new_dh[e] * f.slope(s.a[e]); });
    s.add_product(0, 1, s.dh);
  }

  void step(Step<double>& s) const override { forward_step(s); }
  void step(Step<Bounded>& s) const override { forward_step(s); }
  void step_back(BackStep<double>& s) const override { backward_step(s); }
  void step_back(BackStep<Bounded>& s) const override { backward_step(s); }
};

}  // namespace
D5_REGISTER(operators, "RNN", Rnn);
}  // namespace d5
