// SPDX-License-Identifier: Apache-2.0
// RNN, LSTM and GRU by oneDNN's recurrent primitives.
// ONNX stores a weight as (D, gates * H, inputs), oneDNN sees it as (1, D, inputs, gates, H): the same bytes, turned.
// The gates of an LSTM come in another order (i o f c, here i f c o), so its weights are sorted in each step; those of
// RNN and GRU lie as forward wants them. The two biases of ONNX are one sum, except for the last gate of the
// linear-before-reset GRU. oneDNN adds to the gradients of weights and biases, so they start from zero.
#include <algorithm>
#include <array>

#include "d5/backends/onednn/kernel.hpp"

namespace d5::onednn {
namespace {

enum InputName { X, W, R, B, sequence_lens, initial_h, initial_c, peepholes };
enum OutputName { Y, Y_h, Y_c };

bool present(const std::vector<TensorSpec>& specs, size_t i) { return i < specs.size() && specs[i].present; }

struct Sizes {
  Index steps, batch, inputs, hidden, directions, gates, bias_gates;

  Dims weights(Index from) const { return {1, directions, from, gates, hidden}; }
  Dims biases() const { return {1, directions, bias_gates, hidden}; }
  Dims state() const { return {1, directions, batch, hidden}; }
  Dims sequence() const { return {steps, batch, directions * hidden}; }
};

// The descriptors of one cell, forward or backward; a zero descriptor is a tensor that is not there.
struct Descs {
  Desc x, h, c, w, r, bias, y, y_h, y_c;
};

// One entry of a whole along one axis, or one direction's half of a sequence.
Desc part(const Desc& whole, size_t axis, Index first, Index count = 1) {
  Dims dims = whole.get_dims(), offsets(dims.size(), 0);
  dims[axis] = count;
  offsets[axis] = first;
  return whole.submemory_desc(dims, offsets);
}
Operand seen_as(Operand operand, const Desc& desc) {
  operand.plain = operand.wanted = desc;
  return operand;
}

template <class Cell>
class Recurrent {
 public:
  static std::optional<std::string> cannot(const KernelSetup& setup) {
    const Attributes& a = setup.node.attributes;
    if (present(setup.inputs, sequence_lens)) return "oneDNN runs all samples for the same number of steps";
    if (present(setup.inputs, peepholes)) return "peepholes are not mapped to oneDNN's";
    if (a.integer("layout", 0) != 0) return "oneDNN wants time in front (layout 0)";
    if (a.real("clip", 0) != 0) return "oneDNN does not clip";
    if (a.integer("input_forget", 0) != 0) return "oneDNN does not couple input and forget gates";
    const auto found = a.values().find("activations");
    if (found == a.values().end()) return {};
    const auto given = std::get<std::vector<std::string>>(found->second);
    for (size_t i = 0; i < given.size(); ++i)
      if (!Cell::has_activation(given[i], i) || (Cell::one_activation && given[i] != given[0]))
        return fmt::format("oneDNN's cell has no {} there", given[i]);
    return {};
  }

  static void build(Program& p, const KernelSetup& setup) {
    const Cell cell(setup.node.attributes);
    const DType type = setup.inputs[X].dtype;
    const Shape &x = setup.inputs[X].shape, &r = setup.inputs[R].shape;
    const Sizes s{x[0], x[1], x[2], r[2], r[0], Cell::gates, cell.bias_gates()};
    // Without an initial state oneDNN's gradient of R is wrong (3.2, seen for RNN and LSTM): training gets one of
    // zeros.
    const bool has_state =
        setup.training() || present(setup.inputs, initial_h) || (Cell::has_c && present(setup.inputs, initial_c));
    const bool gives_state = present(setup.outputs, Y_h) || (Cell::has_c && present(setup.outputs, Y_c));
    const Desc state = row_major(type, s.state()), sequence = row_major(type, s.sequence());
    Descs d{.x = row_major(type, dims_of(x)),
            .w = any_layout(type, s.weights(s.inputs)),
            .r = any_layout(type, s.weights(s.hidden)),
            .y = sequence};
    if (has_state) d.h = state;
    if (has_state && Cell::has_c) d.c = state;
    if (gives_state) d.y_h = state;
    if (gives_state && Cell::has_c) d.y_c = state;
    // Nor has it a cell without biases.
    d.bias = row_major(DType::f32, s.biases());

    const auto kind = setup.training() ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
    const auto forward = cell.forward(kind, direction(setup), d, p.attributes());

    // ---- what both passes read. A sequence of two directions is woven together differently; backward reads it again.
    const bool straight = s.directions == 1 && present(setup.outputs, Y);
    const Operand y = straight           ? output(Y, sequence)
                      : setup.training() ? p.workspace(sequence)
                                         : p.temporary(Pass::forward, sequence);
    const auto own_state = [&](OutputName name) {
      return present(setup.outputs, name) ? output(name, state)
             : setup.training()           ? p.workspace(state)
                                          : p.temporary(Pass::forward, state);
    };
    const Operand y_h = gives_state ? own_state(Y_h) : y, y_c = gives_state && Cell::has_c ? own_state(Y_c) : y;

    const auto inputs_of = [&](Pass pass, const Desc& w_wanted, const Desc& r_wanted) {
      std::vector<Argument> arguments{reads(DNNL_ARG_SRC_LAYER, input(X, d.x)),
                                      reads(DNNL_ARG_WEIGHTS_LAYER, weight(p, pass, type, s, W, s.inputs, w_wanted)),
                                      reads(DNNL_ARG_WEIGHTS_ITER, weight(p, pass, type, s, R, s.hidden, r_wanted))};
      arguments.push_back(
          reads(DNNL_ARG_BIAS, present(setup.inputs, B) ? bias(p, pass, type, s) : no_bias(p, pass, s)));
      if (has_state) arguments.push_back(reads(DNNL_ARG_SRC_ITER, initial(p, pass, setup, initial_h, state)));
      if (has_state && Cell::has_c)
        arguments.push_back(reads(DNNL_ARG_SRC_ITER_C, initial(p, pass, setup, initial_c, state)));
      return arguments;
    };

    auto arguments = inputs_of(Pass::forward, forward.weights_layer_desc(), forward.weights_iter_desc());
    arguments.push_back(writes(DNNL_ARG_DST_LAYER, y));
    if (gives_state) arguments.push_back(writes(DNNL_ARG_DST_ITER, y_h));
    if (gives_state && Cell::has_c) arguments.push_back(writes(DNNL_ARG_DST_ITER_C, y_c));
    std::optional<Operand> kept;
    if (setup.training() && forward.workspace_desc().get_size() > 0)
      arguments.push_back(writes(DNNL_ARG_WORKSPACE, kept.emplace(p.workspace(forward.workspace_desc()))));
    p.add(Pass::forward, forward, arguments);
    if (!straight && present(setup.outputs, Y)) weave(p, Pass::forward, s, type, y, output(Y, sequence), true);

    if (std::ranges::none_of(setup.wants_gradient, [](bool wanted) { return wanted; })) return;
    const auto backward = cell.backward(direction(setup), d, forward, p.attributes());
    arguments = inputs_of(Pass::backward, backward.weights_layer_desc(), backward.weights_iter_desc());
    arguments.push_back(reads(DNNL_ARG_DST_LAYER, y));
    if (gives_state) arguments.push_back(reads(DNNL_ARG_DST_ITER, y_h));
    if (gives_state && Cell::has_c) arguments.push_back(reads(DNNL_ARG_DST_ITER_C, y_c));
    if (kept) arguments.push_back(reads(DNNL_ARG_WORKSPACE, *kept));

    const auto zeros = [&](const Desc& desc) {
      const Operand operand = p.temporary(Pass::backward, desc);
      p.add_zero(Pass::backward, operand);
      return operand;
    };
    Operand dy = output_gradient(Y, sequence);
    if (!present(setup.outputs, Y)) {
      dy = zeros(sequence);
    } else if (!straight) {
      dy = p.temporary(Pass::backward, sequence);
      weave(p, Pass::backward, s, type, dy, output_gradient(Y, sequence), false);
    }
    arguments.push_back(reads(DNNL_ARG_DIFF_DST_LAYER, dy));
    const auto state_gradient = [&](OutputName name) {
      return present(setup.outputs, name) ? output_gradient(name, state) : zeros(state);
    };
    if (gives_state) arguments.push_back(reads(DNNL_ARG_DIFF_DST_ITER, state_gradient(Y_h)));
    if (gives_state && Cell::has_c) arguments.push_back(reads(DNNL_ARG_DIFF_DST_ITER_C, state_gradient(Y_c)));

    const auto wanted = [&](size_t i) { return i < setup.wants_gradient.size() && setup.wants_gradient[i]; };
    const auto gradient = [&](size_t i, const Desc& desc) {
      return wanted(i) ? input_gradient(i, desc) : p.temporary(Pass::backward, desc);
    };
    arguments.push_back(writes(DNNL_ARG_DIFF_SRC_LAYER, gradient(X, d.x)));
    if (has_state) arguments.push_back(writes(DNNL_ARG_DIFF_SRC_ITER, gradient(initial_h, state)));
    if (has_state && Cell::has_c) arguments.push_back(writes(DNNL_ARG_DIFF_SRC_ITER_C, gradient(initial_c, state)));
    const Operand dw = zeros(backward.diff_weights_layer_desc()), dr = zeros(backward.diff_weights_iter_desc());
    arguments.push_back(writes(DNNL_ARG_DIFF_WEIGHTS_LAYER, dw));
    arguments.push_back(writes(DNNL_ARG_DIFF_WEIGHTS_ITER, dr));
    const Operand db = zeros(d.bias);
    arguments.push_back(writes(DNNL_ARG_DIFF_BIAS, db));
    p.add(Pass::backward, backward, arguments);
    if (wanted(W)) give_weight_gradient(p, type, s, W, s.inputs, dw);
    if (wanted(R)) give_weight_gradient(p, type, s, R, s.hidden, dr);
    if (wanted(B)) give_bias_gradient(p, type, s, db);
  }

 private:
  static dnnl::rnn_direction direction(const KernelSetup& setup) {
    const std::string text = setup.node.attributes.text("direction", "forward");
    return text == "bidirectional" ? dnnl::rnn_direction::bidirectional_concat
           : text == "reverse"     ? dnnl::rnn_direction::unidirectional_right2left
                                   : dnnl::rnn_direction::unidirectional_left2right;
  }

  static Desc turned(DType type, const Sizes& s, Index from) {
    const Index rows = s.gates * s.hidden;
    return strided(type, s.weights(from), {s.directions * rows * from, rows * from, 1, s.hidden * from, from});
  }

  static Operand weight(Program& p, Pass pass, DType type, const Sizes& s, size_t index, Index from,
                        const Desc& wanted) {
    const Desc plain = turned(type, s, from);
    // Several gates are packed from the dense order only.
    const bool from_plain = s.gates == 1 || wanted.get_format_kind() == dnnl::memory::format_kind::blocked;
    if (std::ranges::is_sorted(Cell::order) && from_plain) return input(index, plain, wanted);
    const Desc dense = row_major(type, s.weights(from));
    const Operand sorted = p.temporary(pass, dense);
    for (Index g = 0; g < s.gates; ++g)
      p.add_copy(pass, input(index, part(plain, 3, Cell::order[g])), seen_as(sorted, part(dense, 3, g)));
    if (wanted == dense) return sorted;
    const Operand result = p.temporary(pass, wanted);
    p.add_copy(pass, sorted, result);
    return result;
  }

  static void give_weight_gradient(Program& p, DType type, const Sizes& s, size_t index, Index from, Operand gradient) {
    if (std::ranges::is_sorted(Cell::order))  // the whole at once: a parameter's gradient lies as the parameter does
      return p.add_copy(Pass::backward, gradient, input_gradient(index, turned(type, s, from)));
    const DType found = gradient.wanted.get_data_type() == dnnl::memory::data_type::f32 ? DType::f32 : type;
    if (const Desc dense = row_major(found, s.weights(from)); !(gradient.wanted == dense)) {
      const Operand sorted = p.temporary(Pass::backward, dense);
      p.add_copy(Pass::backward, gradient, sorted);
      gradient = sorted;
    }
    const Desc plain = turned(type, s, from);
    for (Index g = 0; g < s.gates; ++g)
      p.add_copy(Pass::backward, seen_as(gradient, part(gradient.wanted, 3, g)),
                 input_gradient(index, part(plain, 3, Cell::order[g])));
  }

  // Both biases of ONNX, (D, 2 * gates * H): of the input first, then of the state.
  static Desc both_biases(DType type, const Sizes& s) {
    return row_major(type, {1, s.directions, 2 * s.gates, s.hidden});
  }
  static bool is_split(const Sizes& s, Index gate) { return s.bias_gates > s.gates && gate == s.gates - 1; }

  static Operand bias(Program& p, Pass pass, DType type, const Sizes& s) {
    const Desc both = both_biases(type, s), sums = row_major(DType::f32, s.biases());
    const Operand result = p.temporary(pass, sums);
    for (Index g = 0; g < s.gates; ++g) {
      const Desc of_input = part(both, 2, Cell::order[g]), of_state = part(both, 2, s.gates + Cell::order[g]),
                 sum = part(sums, 2, g);
      if (is_split(s, g)) {
        p.add_copy(pass, input(B, of_input), seen_as(result, sum));
        p.add_copy(pass, input(B, of_state), seen_as(result, part(sums, 2, g + 1)));
        continue;
      }
      const dnnl::binary::primitive_desc add(engine(), dnnl::algorithm::binary_add, of_input, of_state, sum,
                                             p.attributes());
      p.add(pass, add,
            {reads(DNNL_ARG_SRC_0, input(B, of_input)), reads(DNNL_ARG_SRC_1, input(B, of_state)),
             writes(DNNL_ARG_DST, seen_as(result, sum))});
    }
    return result;
  }

  static Operand no_bias(Program& p, Pass pass, const Sizes& s) {
    const Operand zero = p.temporary(pass, row_major(DType::f32, s.biases()));
    p.add_zero(pass, zero);
    return zero;
  }

  static void give_bias_gradient(Program& p, DType type, const Sizes& s, const Operand& gradient) {
    const Desc both = both_biases(type, s);
    for (Index g = 0; g < s.gates; ++g)
      for (const Index half : {0, 1})
        p.add_copy(Pass::backward, seen_as(gradient, part(gradient.wanted, 2, is_split(s, g) ? g + half : g)),
                   input_gradient(B, part(both, 2, half * s.gates + Cell::order[g])));
  }

  static Operand initial(Program& p, Pass pass, const KernelSetup& setup, InputName name, const Desc& state) {
    if (present(setup.inputs, name)) return input(name, state);
    const Operand zero = p.temporary(pass, state);
    p.add_zero(pass, zero);
    return zero;
  }

  // Between oneDNN's (T, N, D * H) and ONNX's (T, D, N, H), one direction at a time.
  static void weave(Program& p, Pass pass, const Sizes& s, DType type, const Operand& joined, const Operand& onnx,
                    bool to_onnx) {
    const Index size = s.batch * s.hidden;
    const Desc apart =
        strided(type, {s.steps, s.batch, s.directions, s.hidden}, {s.directions * size, s.hidden, size, 1});
    const Desc together = row_major(type, {s.steps, s.batch, s.directions, s.hidden});
    for (Index d = 0; d < s.directions; ++d) {
      const Operand a = seen_as(joined, part(together, 2, d)), b = seen_as(onnx, part(apart, 2, d));
      to_onnx ? p.add_copy(pass, a, b) : p.add_copy(pass, b, a);
    }
  }
};

constexpr auto backward_kind = dnnl::prop_kind::backward;

struct RnnCell {
  static constexpr Index gates = 1;
  static constexpr std::array<Index, 1> order{0};
  static constexpr bool has_c = false, one_activation = true;
  static bool has_activation(const std::string& name, size_t) {
    return name == "Tanh" || name == "Relu" || name == "Sigmoid";
  }
  explicit RnnCell(const Attributes& a) {
    const auto found = a.values().find("activations");
    if (found == a.values().end()) return;
    const std::string name = std::get<std::vector<std::string>>(found->second).at(0);
    activation = name == "Relu"   ? dnnl::algorithm::eltwise_relu
                 : name == "Tanh" ? dnnl::algorithm::eltwise_tanh
                                  : dnnl::algorithm::eltwise_logistic;
  }
  Index bias_gates() const { return gates; }
  auto forward(dnnl::prop_kind kind, dnnl::rnn_direction way, const Descs& d, const dnnl::primitive_attr& a) const {
    return dnnl::vanilla_rnn_forward::primitive_desc(engine(), kind, activation, way, d.x, d.h, d.w, d.r, d.bias, d.y,
                                                     d.y_h, a);
  }
  auto backward(dnnl::rnn_direction way, const Descs& d, const dnnl::vanilla_rnn_forward::primitive_desc& hint,
                const dnnl::primitive_attr& a) const {
    return dnnl::vanilla_rnn_backward::primitive_desc(engine(), backward_kind, activation, way, d.x, d.h, d.w, d.r,
                                                      d.bias, d.y, d.y_h, d.x, d.h, d.w, d.r, d.bias, d.y, d.y_h, hint,
                                                      a);
  }
  dnnl::algorithm activation = dnnl::algorithm::eltwise_tanh;
};

struct LstmCell {
  static constexpr Index gates = 4;
  static constexpr std::array<Index, 4> order{0, 2, 3, 1};
  static constexpr bool has_c = true, one_activation = false;
  static bool has_activation(const std::string& name, size_t i) { return name == (i % 3 == 0 ? "Sigmoid" : "Tanh"); }
  explicit LstmCell(const Attributes&) {}
  Index bias_gates() const { return gates; }
  auto forward(dnnl::prop_kind kind, dnnl::rnn_direction way, const Descs& d, const dnnl::primitive_attr& a) const {
    return dnnl::lstm_forward::primitive_desc(engine(), kind, way, d.x, d.h, d.c, d.w, d.r, d.bias, d.y, d.y_h, d.y_c,
                                              a);
  }
  auto backward(dnnl::rnn_direction way, const Descs& d, const dnnl::lstm_forward::primitive_desc& hint,
                const dnnl::primitive_attr& a) const {
    return dnnl::lstm_backward::primitive_desc(engine(), backward_kind, way, d.x, d.h, d.c, d.w, d.r, d.bias, d.y,
                                               d.y_h, d.y_c, d.x, d.h, d.c, d.w, d.r, d.bias, d.y, d.y_h, d.y_c, hint,
                                               a);
  }
};

// h = (1 - z) n + z h: both libraries order the gates z r n.
template <class Forward, class Backward, Index biases>
struct GruCell {
  static constexpr Index gates = 3;
  static constexpr std::array<Index, 3> order{0, 1, 2};
  static constexpr bool has_c = false, one_activation = false;
  static bool has_activation(const std::string& name, size_t i) { return name == (i % 2 == 0 ? "Sigmoid" : "Tanh"); }
  explicit GruCell(const Attributes&) {}
  Index bias_gates() const { return biases; }
  auto forward(dnnl::prop_kind kind, dnnl::rnn_direction way, const Descs& d, const dnnl::primitive_attr& a) const {
    return typename Forward::primitive_desc(engine(), kind, way, d.x, d.h, d.w, d.r, d.bias, d.y, d.y_h, a);
  }
  auto backward(dnnl::rnn_direction way, const Descs& d, const typename Forward::primitive_desc& hint,
                const dnnl::primitive_attr& a) const {
    return typename Backward::primitive_desc(engine(), backward_kind, way, d.x, d.h, d.w, d.r, d.bias, d.y, d.y_h, d.x,
                                             d.h, d.w, d.r, d.bias, d.y, d.y_h, hint, a);
  }
};

using Gru = Recurrent<GruCell<dnnl::gru_forward, dnnl::gru_backward, 3>>;
using LinearBeforeResetGru = Recurrent<GruCell<dnnl::lbr_gru_forward, dnnl::lbr_gru_backward, 4>>;

template <class Network>
class OnednnRecurrent final : public OnednnKernel {
 protected:
  std::optional<std::string> cannot(const KernelSetup& setup) const override { return Network::cannot(setup); }
  void build(Program& p, const KernelSetup& setup) const override { Network::build(p, setup); }
};

class OnednnGru final : public OnednnKernel {
 protected:
  std::optional<std::string> cannot(const KernelSetup& setup) const override { return Gru::cannot(setup); }
  void build(Program& p, const KernelSetup& setup) const override {
    const bool linear_before_reset = setup.node.attributes.integer("linear_before_reset", 0) != 0;
    linear_before_reset ? LinearBeforeResetGru::build(p, setup) : Gru::build(p, setup);
  }
};

}  // namespace
D5_REGISTER_KERNEL(onednn, "RNN", "builtin", OnednnRecurrent<Recurrent<RnnCell>>);
D5_REGISTER_KERNEL(onednn, "LSTM", "builtin", OnednnRecurrent<Recurrent<LstmCell>>);
D5_REGISTER_KERNEL(onednn, "GRU", "builtin", OnednnGru);
}  // namespace d5::onednn
