// SPDX-License-Identifier: Apache-2.0
// Expected values by hand from the formulas in the text of each operator.
#include "run_operator.hpp"

namespace d5 {
namespace {

TEST(RotaryEmbedding, TurnsPairs) {
  const Tensor x = doubles({1, 1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  const Tensor cos = doubles({1, 2, 2}, {0, 1, 0.6, 0.8}), sin = doubles({1, 2, 2}, {1, 0, 0.8, 0.6});
  expect_near(forward(*made("RotaryEmbedding"), {x, cos, sin}).output(0), {1, 1, 2, 4},
              {-3, 2, 1, 4, 3 - 5.6, 4.8 - 4.8, 4 + 4.2, 3.6 + 6.4});
  expect_near(forward(*made("RotaryEmbedding", {{"interleaved", 1}}), {x, cos, sin}).output(0), {1, 1, 2, 4},
              {-2, 1, 3, 4, 3 - 4.8, 4 + 3.6, 5.6 - 4.8, 4.2 + 6.4});
}

TEST(RotaryEmbedding, PartOfTheHeadAndPositions) {
  const Tensor x = doubles({1, 2, 3}, {1, 2, 3, 4, 5, 6}), table = doubles({3, 1}, {1, 0, 0}),
               sines = doubles({3, 1}, {0, 1, -1});
  const Attributes a{{"num_heads", 1}, {"rotary_embedding_dim", 2}};
  const Tensor positions = Tensor::from<int64_t>({1, 2}, {2, 1});
  expect_near(forward(*made("RotaryEmbedding", a), {x, table, sines, positions}).output(0), {1, 2, 3},
              {2, -1, 3, -5, 4, 6});
}

// One head, d_k = 2, d_v = 1, two steps.
TEST(LinearAttention, UpdateRules) {
  const Tensor q = doubles({1, 2, 2}, {1, 2, 3, 4}), k = doubles({1, 2, 2}, {0.5, 1, 1, 0}),
               v = doubles({1, 2, 1}, {2, 4});
  const Tensor decay = doubles({1, 2, 1}, {std::log(0.5), std::log(0.25)}), beta = doubles({1, 2, 1}, {0.5, 1});
  const Tensor past = doubles({1, 1, 2, 1}, {1, -1});
  const auto run = [&](const char* rule, const Tensor& g, const Tensor& b) {
    const Attributes a{{"q_num_heads", 1}, {"kv_num_heads", 1}, {"scale", 1.0}, {"update_rule", rule}};
    return forward(*made("LinearAttention", a), {q, k, v, past, g, b});
  };
  const Context linear = run("linear", {}, {});  // S: (1,-1), (2,1), (6,1)
  expect_near(linear.output(0), {1, 2, 1}, {4, 22});
  expect_near(linear.output(1), {1, 1, 2, 1}, {6, 1});
  const Context gated = run("gated", decay, {});  // (0.5,-0.5) + (1,2), a quarter of it + (4,0)
  expect_near(gated.output(0), {1, 2, 1}, {1.5 + 3, 3 * 4.375 + 4 * 0.375});
  const Context delta = run("delta", {}, beta);  // S^T k = -0.5: + 0.5 k 2.5; then S^T k = 1.625: + k 2.375
  expect_near(delta.output(0), {1, 2, 1}, {1.625 + 2 * 0.25, 3 * 4 + 4 * 0.25});
  const Context both = run("gated_delta", decay, beta);  // dS = (0.5,-0.5), S^T k = -0.25: + 0.5 k 2.25
  expect_near(both.output(0), {1, 2, 1}, {1.0625 + 2 * 0.625, 3 * 4 + 4 * 0.15625});
}

TEST(LinearAttention, HeadsOfQueriesShareAState) {
  const Attributes a{{"q_num_heads", 2}, {"kv_num_heads", 1}, {"update_rule", "linear"}};
  expect_near(forward(*made("LinearAttention", a), {doubles({1, 1, 8}, {1, 0, 0, 0, 0, 2, 0, 0}),
                                                    doubles({1, 1, 4}, {3, 5, 7, 9}), doubles({1, 1, 1}, {2})})
                  .output(0),
              {1, 1, 2}, {3, 10});  // scale 1 / sqrt(4)
}

TEST(CausalConvWithState, SeesThePast) {
  const Tensor x = doubles({1, 1, 3}, {1, 2, 3}), w = doubles({1, 1, 3}, {1, 10, 100}), bias = doubles({1}, {0.5});
  const Context alone = forward(*made("CausalConvWithState"), {x, w, bias});
  expect_near(alone.output(0), {1, 1, 3}, {100.5, 210.5, 321.5});
  expect_near(alone.output(1), {1, 1, 2}, {2, 3});
  const Context later = forward(*made("CausalConvWithState"), {doubles({1, 1, 1}, {4}), w, {}, alone.output(1)});
  expect_near(later.output(0), {1, 1, 1}, {432});
  expect_near(later.output(1), {1, 1, 2}, {3, 4});
  const Context silu = forward(*made("CausalConvWithState", {{"activation", "silu"}}),
                               {doubles({1, 1, 1}, {2}), doubles({1, 1, 1}, {1})});
  expect_near(silu.output(0), {1, 1, 1}, {2 / (1 + std::exp(-2.0))});
}

TEST(SwiGLU, GatesTheSecondInput) {
  expect_near(forward(*made("SwiGLU", {{"alpha", 2.0}}), {doubles({2}, {0, 1}), doubles({2}, {5, 3})}).output(0), {2},
              {0, 3 / (1 + std::exp(-2.0))});
  EXPECT_EQ(infer_error("SwiGLU", {}, {{DType::f32, {2}}, {DType::f32, {1}}}),
            "[swiglu] A is 2 and B is 1; one shape is wanted");
}

// One head of two keys: products 2 and 4 after the scale, mask (0, -inf).
TEST(Attention, FourthOutput) {
  const Tensor q = doubles({1, 1, 1, 1}, {2}), k = doubles({1, 1, 2, 1}, {1, 2}), v = doubles({1, 1, 2, 1}, {3, 5});
  const Tensor mask = doubles({1, 2}, {0, -std::numeric_limits<double>::infinity()});
  const auto scores = [&](Index mode) {
    const Attributes a{{"scale", 1.0}, {"softcap", 4.0}, {"qk_matmul_output_mode", mode}};
    return list(forward(*made("Attention", a), {q, k, v, mask}).output(3));
  };
  EXPECT_EQ(scores(0), (std::vector<double>{2, 4}));
  EXPECT_NEAR(scores(1)[1], 4 * std::tanh(1.0), 1e-12);
  EXPECT_NEAR(scores(2)[0], 4 * std::tanh(0.5), 1e-12);
  EXPECT_EQ(scores(2)[1], -std::numeric_limits<double>::infinity());
  EXPECT_EQ(scores(3), (std::vector<double>{1, 0}));
}

TEST(Language, CasesHold) {
  for (const char* op : {"RotaryEmbedding", "LinearAttention", "CausalConvWithState", "SwiGLU"}) expect_cases_hold(op);
}

}  // namespace
}  // namespace d5
