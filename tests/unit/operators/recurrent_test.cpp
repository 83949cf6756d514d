// SPDX-License-Identifier: Apache-2.0
// RNN, LSTM, GRU. Expected outputs: onnxruntime 1.31; onnx 1.23 (reference evaluator) agrees where it knows the feature
// (it ignores sequence_lens and clip).
#include "run_operator.hpp"

namespace d5 {
namespace {

using Names = std::vector<std::string>;
constexpr double f32 = 2e-6;  // onnxruntime computes in single precision

Tensor lengths(const std::vector<int32_t>& values) {
  return Tensor::from<int32_t>({static_cast<Index>(values.size())}, values);
}

TEST(Rnn, BothDirectionsWithLengthsAndAnActivationForEach) {
  const auto op = made("RNN", {{"direction", "bidirectional"},
                               {"hidden_size", 2},
                               {"activations", Names{"Tanh", "Affine"}},
                               {"activation_alpha", std::vector<double>{0.5}},
                               {"activation_beta", std::vector<double>{0.25}}});
  const Context c = forward(*op, {pattern({3, 2, 2}, 1), pattern({2, 2, 2}, 2), pattern({2, 2, 2}, 3),
                                  pattern({2, 4}, 4), lengths({3, 2}), pattern({2, 2, 2}, 5)});
  expect_near(c.output(0), {3, 2, 2, 2},
              {-0.70390558, -0.99281281, -0.84828365, -0.99839181, 4.109375,  0.5,        2.6171875, 1.8046875,
               0.61248565,  0.78894567,  0.44246686,  0.2791158,   4.2890625, -0.6796875, 3.3125,    -1.46875,
               -0.63592601, -0.97807336, 0,           0,           2.75,      -0.59375,   0,         0},
              f32);
  expect_near(c.output(1), {2, 2, 2},
              {-0.63592601, -0.97807336, 0.44246686, 0.2791158, 4.109375, 0.5, 2.6171875, 1.8046875}, f32);
}

TEST(Rnn, ClipAndRelu) {
  const auto op = made("RNN", {{"clip", 0.75}, {"activations", Names{"Relu"}}});
  const Context c = forward(*op, {pattern({3, 2, 2}, 1), pattern({1, 2, 2}, 2), pattern({1, 2, 2}, 3)});
  expect_near(c.output(0), {3, 1, 2, 2}, {0, 0, 0, 0, 0.75, 0.75, 0.75, 0.75, 0, 0, 0, 0});
}

TEST(Rnn, EveryActivation) {
  const auto run = [](const std::string& name, double alpha = 0, double beta = 0) {
    Attributes a{{"activations", Names{name}}};
    if (alpha != 0) a.set("activation_alpha", std::vector<double>{alpha});
    if (beta != 0) a.set("activation_beta", std::vector<double>{beta});
    return forward(*made("RNN", a),
                   {doubles({1, 4, 1}, {-2, -0.25, 0.75, 3}), doubles({1, 1, 1}, {1}), doubles({1, 1, 1}, {0})})
        .output(0);
  };
  const auto expect = [](const Tensor& got, const std::vector<double>& wanted) {
    expect_near(got, {1, 1, 4, 1}, wanted, f32);
  };
  expect(run("Relu"), {0, 0, 0.75, 3});
  expect(run("Tanh"), {-0.96402758, -0.24491864, 0.63514888, 0.99505484});
  expect(run("Sigmoid"), {0.11920292, 0.4378235, 0.67917871, 0.95257413});
  expect(run("Affine", 2, 0.5), {-3.5, 0, 2, 6.5});
  expect(run("LeakyRelu"), {-0.02, -0.0025, 0.75, 3});
  expect(run("ThresholdedRelu", 0.5), {0, 0, 0.75, 3});
  expect(run("ScaledTanh", 2, 0.5), {-1.52318835, -0.24870598, 0.71671486, 1.81029654});
  expect(run("HardSigmoid"), {0.1, 0.45, 0.65, 1});
  expect(run("Elu"), {-0.86466473, -0.22119921, 0.75, 3});
  expect(run("Softsign"), {-0.66666669, -0.2, 0.42857143, 0.75});
  expect(run("Softplus"), {0.12692805, 0.57593942, 1.13687098, 3.04858732});
}

std::vector<Tensor> lstm_inputs() {
  return {pattern({3, 2, 2}, 1), pattern({1, 8, 2}, 2), pattern({1, 8, 2}, 3), pattern({1, 16}, 4), lengths({2, 3})};
}

TEST(Lstm, PeepholesLengthsAndInitialStates) {
  std::vector<Tensor> inputs = lstm_inputs();
  for (const Tensor& more : {pattern({1, 2, 2}, 5), pattern({1, 2, 2}, 6), pattern({1, 6}, 2)}) inputs.push_back(more);
  const Context c = forward(*made("LSTM", {{"hidden_size", 2}}), inputs);
  expect_near(c.output(0), {3, 1, 2, 2},
              {-0.20088273, 0.00594588, 0.16860329, 0.11464258, -0.14149599, -0.05851226, -0.08407159, -0.00572186, 0,
               0, -0.00550904, -0.01642868},
              f32);
  expect_near(c.output(1), {1, 2, 2}, {-0.14149599, -0.05851226, -0.00550904, -0.01642868}, f32);
  expect_near(c.output(2), {1, 2, 2}, {-0.83596814, -0.61878967, -0.26766047, -0.02088299}, f32);
}

TEST(Lstm, ReverseStartsAtTheEndOfEachSample) {
  const Context c = forward(*made("LSTM", {{"direction", "reverse"}}), lstm_inputs());
  expect_near(c.output(0), {3, 1, 2, 2},
              {-0.01585468, -0.36828655, -0.00652112, -0.36389333, -0.30824515, -0.04922242, -0.12763111, -0.08423449,
               0, 0, 0.00629518, 0.01714869},
              f32);
  expect_near(c.output(2), {1, 2, 2}, {-0.39078596, -0.58353925, -0.37316582, -0.45617312}, f32);
}

TEST(Lstm, CoupledGatesClipAndOtherActivations) {
  const auto op =
      made("LSTM", {{"input_forget", 1}, {"clip", 0.5}, {"activations", Names{"HardSigmoid", "Softsign", "Tanh"}}});
  std::vector<Tensor> inputs = lstm_inputs();
  inputs.resize(3);
  const Context c = forward(*op, inputs);
  expect_near(c.output(0), {3, 1, 2, 2},
              {0.05633323, 0.07952926, 0.0530195, 0.07952926, -0.08737439, -0.05824959, -0.08737439, -0.05824959,
               0.02119979, 0.03846475, 0.01812092, 0.02718138},
              f32);
  expect_near(c.output(2), {1, 2, 2}, {0.04533333, 0.06543031, 0.04533333, 0.04533333}, f32);
}

TEST(Gru, ResetBeforeTheProduct) {
  const Context c = forward(*made("GRU"), {pattern({3, 2, 2}, 1), pattern({1, 6, 2}, 2), pattern({1, 6, 2}, 3),
                                           pattern({1, 12}, 4), lengths({2, 3}), pattern({1, 2, 2}, 5)});
  expect_near(c.output(0), {3, 1, 2, 2},
              {1.27036834, 1.03984046, 1.23195326, 1.03077137, 1.11499155, 0.63731682, 1.04391634, 0.39946148, 0, 0,
               0.94216514, 0.87220669},
              f32);
  expect_near(c.output(1), {1, 2, 2}, {1.11499155, 0.63731682, 0.94216514, 0.87220669}, f32);
}

TEST(Gru, LinearBeforeResetInBothDirections) {
  const Context c = forward(*made("GRU", {{"linear_before_reset", 1}, {"direction", "bidirectional"}}),
                            {pattern({3, 2, 2}, 1), pattern({2, 6, 2}, 2), pattern({2, 6, 2}, 3), pattern({2, 12}, 4),
                             lengths({2, 3}), pattern({2, 2, 2}, 5)});
  expect_near(c.output(0), {3, 2, 2, 2},
              {1.27072001, 1.05739737, 1.24265778, 1.02335846, -0.46466354, 1.26702845, 0.03295022, 1.10689223,
               1.11454201, 0.67269796, 1.04532647, 0.42867118, -0.35783541, 1.39640033, 0.2449173,  1.18861914,
               0,          0,          1.00320327, 0.86367553, 0,           0,          0.97000551, 1.47618866},
              f32);
  expect_near(c.output(1), {2, 2, 2},
              {1.11454201, 0.67269796, 1.00320327, 0.86367553, -0.46466354, 1.26702845, 0.03295022, 1.10689223}, f32);
}

// Axis `a` of a tensor moved to the front, or the front moved there.
Tensor moved(const Tensor& t, size_t from, size_t to) {
  std::vector<size_t> order(t.shape().rank());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  order.erase(order.begin() + static_cast<std::ptrdiff_t>(from));
  order.insert(order.begin() + static_cast<std::ptrdiff_t>(to), from);
  std::vector<Index> sizes;
  for (const size_t axis : order) sizes.push_back(t.shape()[axis]);
  const Tensor result(DType::f64, Shape(sizes));
  const auto strides = t.shape().strides();
  for (Index i = 0; i < result.elements(); ++i) {
    Index rest = i, at = 0;
    for (size_t axis = order.size(); axis-- > 0; rest /= sizes[axis]) at += rest % sizes[axis] * strides[order[axis]];
    result.values<double>()[i] = t.values<double>()[at];
  }
  return result;
}

TEST(Recurrent, LayoutMovesTheSamplesToTheFront) {
  for (const auto& [name, gates] : {std::pair{"RNN", 1}, {"LSTM", 4}, {"GRU", 3}}) {
    SCOPED_TRACE(name);
    std::vector<Tensor> inputs{
        pattern({4, 3, 2}, 1), pattern({2, gates * 2, 2}, 2), pattern({2, gates * 2, 2}, 3), Tensor(), Tensor(),
        pattern({2, 3, 2}, 5)};
    const auto op = made(name, {{"direction", "bidirectional"}});
    const auto first = made(name, {{"direction", "bidirectional"}, {"layout", 1}});
    Context c = forward(*op, inputs);
    inputs[0] = moved(inputs[0], 1, 0);
    inputs[5] = moved(inputs[5], 1, 0);
    Context d = forward(*first, inputs);
    expect_near(d.output(0), {3, 4, 2, 2}, list(moved(c.output(0), 2, 0)));
    expect_near(d.output(1), {3, 2, 2}, list(moved(c.output(1), 1, 0)));
    const Tensor dy = pattern({4, 2, 3, 2}, 7);
    backward(*op, c, dy);
    backward(*first, d, moved(dy, 2, 0));
    expect_near(d.input_gradient(0), {3, 4, 2}, list(moved(c.input_gradient(0), 1, 0)));
    expect_near(d.input_gradient(2), {2, gates * 2, 2}, list(c.input_gradient(2)));
    expect_near(d.input_gradient(5), {3, 2, 2}, list(moved(c.input_gradient(5), 1, 0)));
  }
}

TEST(Recurrent, BadSizesAreNamed) {
  const TensorSpec x{DType::f32, {3, 2, 5}}, w{DType::f32, {1, 16, 5}}, r{DType::f32, {1, 16, 4}};
  EXPECT_EQ(infer_error("LSTM", {}, {x, w, {DType::f32, {1, 12, 4}}}),
            "[lstm] R is 1x12x4; 1x16x4 is wanted (X 3x2x5, hidden 4, direction forward)");
  EXPECT_EQ(infer_error("LSTM", {{"direction", "bidirectional"}}, {x, w, r}),
            "[lstm] W is 1x16x5; 2x16x5 is wanted (X 3x2x5, hidden 4, direction bidirectional)");
  EXPECT_EQ(infer_error("LSTM", {{"hidden_size", 8}}, {x, w, r}), "[lstm] hidden_size is 8 but R is 1x16x4");
  EXPECT_EQ(infer_error("LSTM", {}, {x, w, r, TensorSpec::absent(), {DType::i64, {2}}}),
            "[lstm] sequence_lens is of type i64; i32 is wanted");
  EXPECT_EQ(message_of([] {
              made("GRU", {{"direction", "backward"}});
            }),
            "[gru] direction is 'backward'; legal: forward, reverse, bidirectional");
  EXPECT_EQ(message_of([] {
              made("GRU", {{"activations", Names{"Tanh"}}});
            }),
            "[gru] 1 activations given; 2 are wanted, 2 for each direction");
  EXPECT_NE(message_of([] { made("RNN", {{"activations", Names{"tanh"}}}); }).find("Tanh"), std::string::npos);
  EXPECT_EQ(message_of([] {
              forward(*made("RNN"),
                      {pattern({3, 1, 1}, 1), pattern({1, 1, 1}, 2), pattern({1, 1, 1}, 3), Tensor(), lengths({4})});
            }),
            "[rnn] sequence_lens[0] is 4; 0 to 3 steps are there");
}

TEST(Rnn, CasesHold) { expect_cases_hold("RNN"); }
TEST(Lstm, CasesHold) { expect_cases_hold("LSTM"); }
TEST(Gru, CasesHold) { expect_cases_hold("GRU"); }

}  // namespace
}  // namespace d5
