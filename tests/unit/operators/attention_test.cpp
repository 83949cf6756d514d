// SPDX-License-Identifier: Apache-2.0
// Expected outputs: onnx 1.23 (reference evaluator, opset 25) in double.
#include "run_operator.hpp"

namespace d5 {
namespace {

constexpr double digits = 2e-8;  // the reference rounds the square root of the scale to single precision

TEST(Attention, GroupedHeadsAndAFloatMask) {
  const Context c = forward(*made("Attention"), {pattern({1, 4, 2, 3}, 1), pattern({1, 2, 3, 3}, 2),
                                                 pattern({1, 2, 3, 2}, 3), pattern({4, 2, 3}, 4)});
  expect_near(c.output(0), {1, 4, 2, 2},
              {0.5827169086, -0.0636273937, 0.4855937169, -0.4899622188, -0.752992543, 1.0587123315, -0.0982929813,
               0.9071398171, -0.1790565324, -0.7285024403, -1.1221384627, 0.7818353552, 0.4774564746, -0.4001854596,
               0.3814234418, -0.3656676067},
              digits);
}

TEST(Attention, HeadsWithinTheLastAxisCausalWithSoftCap) {
  const auto op =
      made("Attention", {{"q_num_heads", 2}, {"kv_num_heads", 2}, {"is_causal", 1}, {"softcap", 1.5}, {"scale", 0.75}});
  const Context c = forward(*op, {pattern({2, 3, 4}, 1), pattern({2, 3, 4}, 2), pattern({2, 3, 4}, 3)});
  expect_near(c.output(0), {2, 3, 4},
              {-1,
               1.25,
               0.25,
               -0.75,
               0.3486029678,
               0.8454191097,
               0.1395405155,
               -0.8604594845,
               0.6374292452,
               0.2804360589,
               -0.7535824493,
               -0.3367677302,
               0,
               -1,
               1.25,
               0.25,
               -0.4369709186,
               0.4565697287,
               1.1201547669,
               0.1201547669,
               -0.5363402709,
               0.1407628586,
               0.1874727993,
               -0.8125272007},
              digits);
}

TEST(Attention, ThePastStandsBeforeAndAShortMaskHidesTheRest) {
  Tensor mask(DType::boolean, {2, 3});
  std::ranges::copy(std::vector<bool>{true, false, true, true, true, true}, mask.values<bool>().begin());
  const Context c = forward(*made("Attention", {{"is_causal", 1}}),
                            {pattern({1, 1, 2, 2}, 1), pattern({1, 1, 2, 2}, 2), pattern({1, 1, 2, 2}, 3), mask,
                             pattern({1, 1, 2, 2}, 4), pattern({1, 1, 2, 2}, 5)});
  expect_near(c.output(0), {1, 1, 2, 2}, {0.4418221138, 1.3941822114, 1.0685988272, 1.4568598827}, digits);
  expect_near(c.output(1), {1, 1, 4, 2}, {0.25, -0.25, -0.75, -1.25, 1, -0.5, 1.25, -0.25});
  expect_near(c.output(2), {1, 1, 4, 2}, {1.5, 1.5, 1.5, 1.5, -1, 1.25, 0.25, -0.75});
}

TEST(Attention, PaddedKeysShiftTheCausalFrontier) {
  const auto op = made("Attention", {{"is_causal", 1}, {"left_window_size", 1}});
  const Context c = forward(*op, {pattern({2, 1, 3, 2}, 1), pattern({2, 1, 4, 2}, 2), pattern({2, 1, 4, 2}, 3),
                                  Tensor(), Tensor(), Tensor(), Tensor::from<int64_t>({2}, {2, 4})});
  // The first query of the first sample sees nothing: zero, not NaN.
  expect_near(c.output(0), {2, 1, 3, 2},
              {0, 0, -1, 1.25, -0.3199006958, 0.1618411133, -0.205834576, 0.34739661, -0.5562262172, -0.1100380525,
               0.6111915681, -0.3888084319},
              digits);
}

TEST(Attention, AWindowOnBothSides) {
  const auto op = made("Attention", {{"left_window_size", 2}, {"right_window_size", 1}});
  expect_near(
      forward(*op, {pattern({1, 1, 4, 2}, 1), pattern({1, 1, 4, 2}, 2), pattern({1, 1, 4, 2}, 3)}).output(0),
      {1, 1, 4, 2},
      {-0.333628547, 0.1838056752, 0.1398370253, 0.3695421634, 0.3833399372, 0.2685151904, 0.7498346362, -0.2501653638},
      digits);
}

// softmax(Q K^T / sqrt(size)) V from MatMul and Softmax, forward and backward.
TEST(Attention, IsMatMulSoftmaxMatMul) {
  const Tensor q = pattern({2, 3, 5, 4}, 1), k = pattern({2, 3, 6, 4}, 2), v = pattern({2, 3, 6, 7}, 3),
               dy = pattern({2, 3, 5, 7}, 4);
  const auto attention = made("Attention"), product = made("MatMul"), softmax = made("Softmax");
  Context whole = forward(*attention, {q, k, v});
  backward(*attention, whole, dy);

  Tensor transposed(DType::f64, {2, 3, 4, 6});
  const auto swap = [](const Tensor& from, const Tensor& to) {
    const Index rows = from.shape()[2], columns = from.shape()[3];
    for (Index i = 0; i < from.elements(); ++i)
      to.values<double>()[i / (rows * columns) * rows * columns + i % columns * rows + i / columns % rows] =
          from.values<double>()[i];
  };
  swap(k, transposed);
  Context scores = forward(*product, {q, transposed});
  for (double& value : scores.outputs[0].values<double>()) value /= 2;  // sqrt(4)
  Context weights = forward(*softmax, {scores.output(0)});
  Context last = forward(*product, {weights.output(0), v});
  expect_near(whole.output(0), {2, 3, 5, 7}, list(last.output(0)));

  backward(*product, last, dy);
  backward(*softmax, weights, last.input_gradient(0));
  for (double& value : weights.input_gradients[0].values<double>()) value /= 2;
  backward(*product, scores, weights.input_gradient(0));
  Tensor dk(DType::f64, {2, 3, 6, 4});
  swap(scores.input_gradient(1), dk);
  expect_near(whole.input_gradient(0), {2, 3, 5, 4}, list(scores.input_gradient(0)));
  expect_near(whole.input_gradient(1), {2, 3, 6, 4}, list(dk));
  expect_near(whole.input_gradient(2), {2, 3, 6, 7}, list(last.input_gradient(1)));
}

TEST(Attention, BadSizesAreNamed) {
  const TensorSpec q{DType::f32, {2, 4, 5, 8}}, k{DType::f32, {2, 2, 6, 8}}, three{DType::f32, {2, 5, 32}};
  EXPECT_EQ(infer_error("Attention", {}, {q, {DType::f32, {2, 3, 6, 8}}, k}),
            "[attention] 4 heads of Q cannot share 3 heads of K: the first must be a multiple of the second");
  EXPECT_EQ(infer_error("Attention", {}, {q, k, {DType::f32, {2, 2, 7, 8}}}),
            "[attention] V is 2x2x7x8; 2x2x6x8 is wanted for Q 2x4x5x8, 2 heads for 4");
  EXPECT_EQ(infer_error("Attention", {}, {three, three, three}),
            "[attention] Q is 2x5x32: with 3 axes q_num_heads and kv_num_heads are wanted");
  EXPECT_EQ(infer_error("Attention", {}, {q, k, k, {DType::boolean, {3, 5, 6}}}),
            "[attention] attn_mask is 3x5x6; it must broadcast to 2x4x5x6, with at most that many keys");
  EXPECT_EQ(infer_error("Attention", {}, {q, k, k, TensorSpec::absent(), k}),
            "[attention] past_key is there without past_value");
  EXPECT_EQ(message_of([] {
              made("Attention", {{"qk_matmul_output_mode", 4}});
            }),
            "[attention] qk_matmul_output_mode is 4; legal: 0, 1, 2, 3");
}

TEST(Attention, CasesHold) { expect_cases_hold("Attention"); }

}  // namespace
}  // namespace d5
