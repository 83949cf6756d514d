// SPDX-License-Identifier: Apache-2.0
// RNN, LSTM, GRU by torch's own functions for whole sequences. Gates lie in another order there (LSTM: i f g o, not
// ONNX's i o f g; GRU: r z n, not z r h): weights that nobody else reads are stored so, as in its users' programs,
// others are reordered in each forward.
#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/gru.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/lstm.h>
#include <ATen/ops/rnn_relu.h>
#include <ATen/ops/rnn_tanh.h>
#include <ATen/ops/zeros.h>

#include "d5/backends/torch/library.hpp"
#include "d5/backends/torch/operator_table.hpp"

namespace d5::libtorch {
namespace {

enum Input : size_t { x, w, r, b, lengths, initial_h, initial_c, peepholes };

// Which rows of ONNX's weights stand first, second, ... in torch's; `parts` such sets behind each other.
std::vector<int64_t> rows_of(const std::vector<int64_t>& gates, int64_t hidden, int64_t parts) {
  std::vector<int64_t> rows;
  for (int64_t part = 0; part < parts; ++part)
    for (const int64_t gate : gates)
      for (int64_t i = 0; i < hidden; ++i)
        rows.push_back((part * static_cast<int64_t>(gates.size()) + gate) * hidden + i);
  return rows;
}

std::string why_not(const Setup& setup, const std::vector<std::string>& activations) {
  const Attributes& a = setup.attributes;
  if (setup.has(lengths)) return "torch wants packed sequences for samples of different lengths";
  if (setup.has(peepholes)) return "torch's LSTM has no peepholes";
  if (a.real("clip", 0) != 0) return "torch does not clip the inputs of activations";
  if (a.flag("input_forget", false)) return "torch's LSTM does not couple input and forget gates";
  if (setup.node.op == "GRU" && !a.flag("linear_before_reset", false))
    return "torch's GRU applies the reset gate after the product (linear_before_reset = 1)";
  if (!a.has("activations")) return "";
  const auto given = std::get<std::vector<std::string>>(a.values().at("activations"));
  for (size_t i = 0; i < given.size(); ++i)
    if (given[i] != activations[i % activations.size()])
      return fmt::format("torch has {} there, not {}", activations[i % activations.size()], given[i]);
  return "";
}

// As long as it lives, cuDNN is not taken.
class WithoutCudnn {
 public:
  explicit WithoutCudnn(bool off) : before_(at::globalContext().userEnabledCuDNN()) {
    if (off) at::globalContext().setUserEnabledCuDNN(false);
  }
  ~WithoutCudnn() { at::globalContext().setUserEnabledCuDNN(before_); }
  WithoutCudnn(const WithoutCudnn&) = delete;

 private:
  bool before_;
};

Prepared recurrent(const Setup& setup) {
  const std::string& op = setup.node.op;
  const Attributes& a = setup.attributes;
  std::vector<int64_t> gates{0};
  std::vector<std::string> activations{"Tanh"};
  if (op == "LSTM") {
    gates = {0, 2, 3, 1};
    activations = {"Sigmoid", "Tanh", "Tanh"};
  } else if (op == "GRU") {
    gates = {1, 0, 2};
    activations = {"Sigmoid", "Tanh"};
  } else if (a.has("activations") &&
             std::get<std::vector<std::string>>(a.values().at("activations")).front() == "Relu") {
    activations = {"Relu"};
  }
  if (const std::string reason = why_not(setup, activations); !reason.empty()) return refuse("{}", reason);

  const std::string direction = a.text("direction", "forward");
  const bool batch_first = a.flag("layout", false), reverse = direction == "reverse",
             both = direction == "bidirectional";
  const bool bias = setup.has(b), training = setup.options.mode == Mode::training, lstm = op == "LSTM",
             gru = op == "GRU", relu = activations[0] == "Relu";
  const int64_t hidden = setup.inputs[r].shape.back(), directions = both ? 2 : 1, time = batch_first ? 1 : 0,
                batch = setup.inputs[x].shape[batch_first ? 0 : 1], width = static_cast<int64_t>(gates.size()) * hidden;
  const auto options = at::dtype(scalar_type(setup.dtype())).device(setup.device);
  // cuDNN's f32 is off by about 1e-5 of the result even for one cell of one number, where no product can err so (cuDNN
  // 9 on an H200): its activations are approximations.
  const bool strict = setup.device.is_cuda() && setup.dtype() == DType::f32 && setup.options.math == Math::strict;

  Prepared prepared;
  std::array<at::Tensor, 4> order;  // by input; undefined: as it is stored
  for (const size_t i : {size_t{w}, size_t{r}, size_t{b}}) {
    if (gates.size() == 1 || !setup.has(i)) continue;
    const std::vector<int64_t> rows = rows_of(gates, hidden, i == b ? 2 : 1);
    if (setup.owned[i])
      prepared.stored_rows[i] = {lstm ? "gates_ifgo" : "gates_rzn", rows};
    else
      order[i] = wrap(d5::Tensor::from<int64_t>({static_cast<Index>(rows.size())}, rows))
                     .to(setup.device, at::kLong, false, true);
  }
  const auto state = [=](Inputs in, size_t i) {
    if (i >= in.size() || !in[i].defined()) return at::zeros({directions, batch, hidden}, options);
    return batch_first ? in[i].transpose(0, 1).contiguous() : in[i];
  };
  prepared.compute = [=](Inputs in, Outputs out) {
    const auto weight = [&](size_t i, int64_t d) {
      const at::Tensor one = in[i].select(0, d);
      return order[i].defined() ? at::index_select(one, 0, order[i]) : one;
    };
    std::vector<at::Tensor> parameters;
    for (int64_t d = 0; d < directions; ++d) {
      parameters.push_back(weight(w, d));
      parameters.push_back(weight(r, d));
      if (!bias) continue;
      const at::Tensor biases = weight(b, d);
      parameters.push_back(biases.narrow(0, 0, width));
      parameters.push_back(biases.narrow(0, width, width));
    }
    const WithoutCudnn guard(strict);
    const at::Tensor sequence = reverse ? in[x].flip(time) : in[x];
    at::Tensor y, h, c;
    if (lstm) {
      const std::array<at::Tensor, 2> start{state(in, initial_h), state(in, initial_c)};
      std::tie(y, h, c) = at::lstm(sequence, start, parameters, bias, 1, 0.0, training, both, batch_first);
    } else {
      const at::Tensor start = state(in, initial_h);
      std::tie(y, h) = gru    ? at::gru(sequence, start, parameters, bias, 1, 0.0, training, both, batch_first)
                       : relu ? at::rnn_relu(sequence, start, parameters, bias, 1, 0.0, training, both, batch_first)
                              : at::rnn_tanh(sequence, start, parameters, bias, 1, 0.0, training, both, batch_first);
    }
    if (reverse) y = y.flip(time);
    y = y.unflatten(2, {directions, hidden});
    out[0] = batch_first ? y : y.transpose(1, 2);
    if (out.size() > 1) out[1] = batch_first ? h.transpose(0, 1) : h;
    if (out.size() > 2) out[2] = batch_first ? c.transpose(0, 1) : c;
  };
  prepared.function = "aten::" + (lstm ? std::string("lstm") : op == "GRU" ? "gru" : relu ? "rnn_relu" : "rnn_tanh");
  if (strict) prepared.function += " (without cuDNN, which approximates activations)";
  // Products of a step are stored before they are added and go through the gates.
  return std::move(prepared).rounds_between();
}

}  // namespace
D5_TORCH_OPERATOR("LSTM", recurrent);
D5_TORCH_OPERATOR("GRU", recurrent);
D5_TORCH_OPERATOR("RNN", recurrent);
}  // namespace d5::libtorch
