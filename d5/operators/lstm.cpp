// SPDX-License-Identifier: Apache-2.0
// Long short-term memory (Hochreiter and Schmidhuber, 1997; ONNX LSTM), with peepholes P (Gers and Schmidhuber, 2000).
// Gates lie in the order i, o, f, g; a are their sums of products and biases (recurrent.hpp).
//   i = s(a_i + P_i c')      f = s(a_f + P_f c')      g = t(a_g)      c = f c' + i g      o = s(a_o + P_o c)      h = o
//   u(c)
// where h', c' is the state before, and s, t, u are by default Sigmoid, Tanh, Tanh. With input_forget f = 1 - i.
//   da_o = dh u(c) s'      dc += dh o u'(c) + P_o da_o      da_i = dc g s'      da_f = dc c' s'      da_g = dc i t'
//   dc' = dc f + P_i da_i + P_f da_f
#include "d5/operators/checks.hpp"
#include "d5/operators/recurrent.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[lstm]";

class Lstm final : public Recurrent {
 public:
  explicit Lstm(const Attributes& a)
      : Recurrent(
            a,
            {.place = place, .gates = 4, .activations = {"Sigmoid", "Tanh", "Tanh"}, .has_c = true, .elementwise = 5}),
        coupled_(a.flag("input_forget", false)) {
    check_attributes(a,
                     {"activation_alpha", "activation_beta", "activations", "clip", "direction", "hidden_size",
                      "input_forget", "layout"},
                     place);
  }

  static std::vector<Parameter> parameters() {
    return common_parameters({{"peepholes", "gates look at the cell state", false},
                              {"input_forget", "the forget gate is one minus the input gate", false}});
  }
  static OperatorCase describe(const Attributes& v, DType type) {
    return common_case(v, type, 4, true, {"input_forget"});
  }

  static std::vector<Attributes> cases() {
    return {{{"hidden", 1}, {"batch", 1}, {"timesteps", 1}},
            {{"hidden", 3}, {"batch", 2}, {"timesteps", 4}, {"input", 5}, {"bias", false}, {"states", false}},
            {{"hidden", 4}, {"batch", 3}, {"timesteps", 3}, {"initial_state", true}, {"peepholes", true}},
            {{"hidden", 3}, {"batch", 3}, {"timesteps", 5}, {"direction", "reverse"}, {"lengths", true}},
            {{"hidden", 2},
             {"batch", 3},
             {"timesteps", 4},
             {"input", 3},
             {"direction", "bidirectional"},
             {"lengths", true},
             {"initial_state", true},
             {"batch_first", true}},
            {{"hidden", 3},
             {"batch", 2},
             {"timesteps", 3},
             {"activation", "HardSigmoid+Softsign+Relu"},
             {"clip", 0.5},
             {"peepholes", true},
             {"input_forget", true}},
            {{"hidden", 32}, {"batch", 4}, {"timesteps", 10}}};
  }

 private:
  template <class T>
  struct Cell {
    T in, forget, out, in_sum, forget_sum, out_sum, candidate, c;
  };

  template <class T>
  Cell<T> cell(size_t direction, const double* p, Index hidden, const T* a, Index j, const T& before) const {
    const Activation &s = activation(direction, 0), &t = activation(direction, 1);
    Cell<T> v;
    v.in_sum = p ? a[j] + p[j] * before : a[j];
    v.in = s(v.in_sum);
    v.forget_sum = p ? a[2 * hidden + j] + p[2 * hidden + j] * before : a[2 * hidden + j];
    v.forget = coupled_ ? 1.0 - v.in : s(v.forget_sum);
    v.candidate = t(a[3 * hidden + j]);
    v.c = v.forget * before + v.in * v.candidate;
    v.out_sum = p ? a[hidden + j] + p[hidden + j] * v.c : a[hidden + j];
    v.out = s(v.out_sum);
    return v;
  }

  template <class T>
  void forward_step(Step<T>& s) const {
    s.add_product(0, 4, s.h, s.a, 4 * s.hidden);
    s.for_each([&](Index b, Index j, Index e) {
      const Cell<T> v = cell(s.direction, s.peepholes, s.hidden, s.gate(b, 0), j, s.c[e]);
      s.new_c[e] = s.extra[e] = v.c;
      s.new_h[e] = v.out * activation(s.direction, 2)(v.c);
    });
  }

  template <class T>
  void backward_step(BackStep<T>& s) const {
    const Activation &f = activation(s.direction, 0), &t = activation(s.direction, 1), &u = activation(s.direction, 2);
    const double* p = s.peepholes;
    const Index h = s.hidden;
    s.for_each([&](Index b, Index j, Index e) {
      const T *a = s.a + s.gate(b, 0), &before = s.c[e];
      const Cell<T> v = cell(s.direction, p, h, a, j, before);
      const T out = s.new_dh[e] * u(v.c) * f.slope(v.out_sum);
      T dc = s.new_dc[e] + s.new_dh[e] * v.out * u.slope(v.c);
      if (p) dc = dc + p[h + j] * out;
      const T in = dc * (coupled_ ? v.candidate - before : v.candidate) * f.slope(v.in_sum);
      const T forget = coupled_ ? 0.0 * dc : dc * before * f.slope(v.forget_sum);
      const T gates[] = {in, out, forget, dc * v.in * t.slope(a[3 * h + j])};
      for (Index g = 0; g < 4; ++g) s.da[s.gate(b, g) + j] = s.dq[s.gate(b, g) + j] = gates[g];
      s.dc[e] = dc * v.forget;
      if (p) s.dc[e] = s.dc[e] + (p[j] * in + p[2 * h + j] * forget);
    });
    s.add_product(0, 4, s.dh);
  }

  void step(Step<double>& s) const override { forward_step(s); }
  void step(Step<Bounded>& s) const override { forward_step(s); }
  void step_back(BackStep<double>& s) const override { backward_step(s); }
  void step_back(BackStep<Bounded>& s) const override { backward_step(s); }

  bool coupled_;
};

}  // namespace
D5_REGISTER(operators, "LSTM", Lstm);
}  // namespace d5
