// SPDX-License-Identifier: Apache-2.0
// The gated recurrent unit (Cho et al., 2014; ONNX GRU). Gates lie in the order z, r, g; a_z and a_r are their sums of
// products and biases, x_g is x W_g^T + Wb_g, h' the state before (recurrent.hpp).
//   z = s(a_z)      r = s(a_r)      h = (1 - z) g + z h'
//   g = t(x_g + (r h') R_g^T + Rb_g), or where linear_before_reset is set g = t(x_g + r q) with q = h' R_g^T + Rb_g
//   da_z = dh (h' - g) s'      da_g = dh (1 - z) t'      da_r = m h' s' with m = da_g R_g, or da_g q s'
//   dh' = dh z + m r + da_z R_z + da_r R_r, or dh z + (r da_g) R_g + da_z R_z + da_r R_r
// s, t are by default Sigmoid, Tanh. cuDNN, oneDNN (as lbr_gru) and PyTorch have linear_before_reset.
#include "d5/operators/checks.hpp"
#include "d5/operators/recurrent.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[gru]";

class Gru final : public Recurrent {
 public:
  explicit Gru(const Attributes& a)
      : Recurrent(a, {.place = place,
                      .gates = 3,
                      .activations = {"Sigmoid", "Tanh"},
                      .extra_operand = a.flag("linear_before_reset", false) ? -1 : 2,
                      .extra_bias = a.flag("linear_before_reset", false),
                      .elementwise = 5}),
        linear_(a.flag("linear_before_reset", false)) {
    check_attributes(a,
                     {"activation_alpha", "activation_beta", "activations", "clip", "direction", "hidden_size",
                      "layout", "linear_before_reset"},
                     place);
  }

  static std::vector<Parameter> parameters() {
    return common_parameters({{"linear_before_reset", "the reset gate acts on the product, not on the state", false}});
  }
  static OperatorCase describe(const Attributes& v, DType type) {
    return common_case(v, type, 3, false, {"linear_before_reset"});
  }

  static std::vector<Attributes> cases() {
    return {{{"hidden", 1}, {"batch", 1}, {"timesteps", 1}},
            {{"hidden", 3}, {"batch", 2}, {"timesteps", 4}, {"input", 5}, {"bias", false}, {"states", false}},
            {{"hidden", 4}, {"batch", 3}, {"timesteps", 3}, {"initial_state", true}, {"linear_before_reset", true}},
            {{"hidden", 3}, {"batch", 3}, {"timesteps", 5}, {"direction", "reverse"}, {"lengths", true}},
            {{"hidden", 2},
             {"batch", 3},
             {"timesteps", 4},
             {"input", 3},
             {"direction", "bidirectional"},
             {"lengths", true},
             {"initial_state", true},
             {"batch_first", true},
             {"linear_before_reset", true}},
            {{"hidden", 3}, {"batch", 2}, {"timesteps", 3}, {"activation", "HardSigmoid+Elu"}, {"clip", 0.5}},
            {{"hidden", 32}, {"batch", 4}, {"timesteps", 10}},
            {{"hidden", 32}, {"batch", 4}, {"timesteps", 10}, {"linear_before_reset", true}}};
  }

 private:
  template <class T>
  void forward_step(Step<T>& s) const {
    const Activation &f = activation(s.direction, 0), &t = activation(s.direction, 1);
    s.add_product(0, 2, s.h, s.a, 3 * s.hidden);
    if (linear_) {
      s.add_product(2, 1, s.h, s.extra, s.hidden);
    } else {
      s.for_each([&](Index b, Index j, Index e) { s.extra[e] = f(s.gate(b, 1)[j]) * s.h[e]; });
      s.add_product(2, 1, s.extra, s.gate(0, 2), 3 * s.hidden);
    }
    s.for_each([&](Index b, Index j, Index e) {
      const T z = f(s.gate(b, 0)[j]), g = t(candidate_sum(f, s.gate(b, 1)[j], s.gate(b, 2)[j], s.extra[e]));
      s.new_h[e] = (1.0 - z) * g + z * s.h[e];
    });
  }

  template <class T>
  void backward_step(BackStep<T>& s) const {
    const Activation &f = activation(s.direction, 0), &t = activation(s.direction, 1);
    s.for_each([&](Index b, Index j, Index e) {
      const T z = f(s.a[s.gate(b, 0) + j]), &reset_sum = s.a[s.gate(b, 1) + j];
      const T sum = candidate_sum(f, reset_sum, s.a[s.gate(b, 2) + j], s.extra[e]);
      const T dz = s.new_dh[e] * (s.h[e] - t(sum)) * f.slope(s.a[s.gate(b, 0) + j]);
      const T dg = s.new_dh[e] * (1.0 - z) * t.slope(sum);
      s.da[s.gate(b, 0) + j] = s.dq[s.gate(b, 0) + j] = dz;
      s.da[s.gate(b, 2) + j] = dg;
      s.dq[s.gate(b, 2) + j] = linear_ ? dg * f(reset_sum) : dg;
      if (linear_) s.da[s.gate(b, 1) + j] = s.dq[s.gate(b, 1) + j] = dg * s.extra[e] * f.slope(reset_sum);
      s.dh[e] = s.new_dh[e] * z;
    });
    if (!linear_) {
      s.add_product(2, 1, s.product);
      s.for_each([&](Index b, Index j, Index e) {
        const T& reset_sum = s.a[s.gate(b, 1) + j];
        s.da[s.gate(b, 1) + j] = s.dq[s.gate(b, 1) + j] = s.product[e] * s.h[e] * f.slope(reset_sum);
        s.dh[e] = s.dh[e] + s.product[e] * f(reset_sum);
      });
    }
    s.add_product(0, linear_ ? 3 : 2, s.dh);
  }

  template <class T>
  T candidate_sum(const Activation& f, const T& reset_sum, const T& a, const T& extra) const {
    return linear_ ? a + f(reset_sum) * extra : a;
  }
  void step(Step<double>& s) const override { forward_step(s); }
  void step(Step<Bounded>& s) const override { forward_step(s); }
  void step_back(BackStep<double>& s) const override { backward_step(s); }
  void step_back(BackStep<Bounded>& s) const override { backward_step(s); }

  bool linear_;
};

}  // namespace
D5_REGISTER(operators, "GRU", Gru);
}  // namespace d5
