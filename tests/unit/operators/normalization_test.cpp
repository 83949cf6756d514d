// SPDX-License-Identifier: Apache-2.0
// LayerNormalization, InstanceNormalization, GroupNormalization, RMSNormalization. Expected outputs: onnx 1.23
// (reference evaluator) and onnxruntime 1.31, which agree (RMSNormalization: the first alone).
#include "run_operator.hpp"

namespace d5 {
namespace {

TEST(LayerNormalization, LastAxis) {
  const auto op = made("LayerNormalization", {{"epsilon", 1e-2}});
  const Context c = forward(*op, {pattern({2, 2, 3}, 1), pattern({3}, 2), pattern({3}, 3)});
  expect_near(c.output(0), {2, 2, 3},
              {-1.20056236, 0.59817225, -1.12886631, -1.20056236, 0.59817225, -1.12886631, 0.10309291, 1.90182769,
               0.50070292, 0.10309291, 1.90182769, 0.50070292},
              5e-7);
  expect_near(c.output(1), {2, 2, 1}, {-0.25 / 3, 1.25 / 3, -0.5 / 3, 1.0 / 3});
  expect_near(c.output(2), {2, 2, 1}, {1.20337427, 1.20337427, 1.20337415, 1.20337415}, 5e-7);
}

TEST(LayerNormalization, ScaleAndBiasBroadcastEachByItself) {
  const auto op = made("LayerNormalization", {{"axis", 1}});
  const Context c = forward(*op, {pattern({2, 2, 3}, 1), pattern({1, 3}, 2), pattern({2, 1}, 3)});
  expect_near(c.output(0), {2, 2, 3},
              {-1.48336494, -1.48336494, -2.69177747, 1.34667301, 0.47661602, 0.28327, -0.22661601, -0.22661601,
               -1.12084126, 2.60342193, 1.73336494, 1.8542062},
              1e-6);
  expect_near(c.output(1), {2, 1, 1}, {0.5 / 3, 0.25 / 3});
  Context d = c;
  backward(*op, d, doubles({2, 2, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
  expect_near(d.input_gradient(2), {2, 1}, {1 + 2 + 3 + 7 + 8 + 9, 4 + 5 + 6 + 10 + 11 + 12});
}

TEST(LayerNormalization, StatisticsHaveTheStashType) {
  const std::vector<TensorSpec> in{{DType::f16, {4, 8}}, {DType::f16, {8}}};
  EXPECT_EQ(to_string(made("LayerNormalization")->infer(in)[1]), "f32[4x1]");
  EXPECT_EQ(to_string(made("LayerNormalization", {{"stash_type", 16}})->infer(in)[2]), "bf16[4x1]");
  EXPECT_EQ(message_of([] {
              made("LayerNormalization", {{"stash_type", 7}});
            }),
            "[layer_normalization] stash_type is 7; legal: 1 (f32), 16 (bf16)");
}

TEST(InstanceNormalization, EachChannelOfEachImage) {
  const auto op = made("InstanceNormalization", {{"epsilon", 1e-2}});
  expect_near(forward(*op, {pattern({2, 2, 3}, 1), pattern({2}, 2), pattern({2}, 3)}).output(0), {2, 2, 3},
              {-1.20056236, 0.30365533, -2.10309291, 1.35028124, 0.59817237, 1.80154657, 0.10309303, -2.30365562,
               -0.79943764, 0.69845343, 1.90182769, 1.14971876},
              1e-6);
}

TEST(GroupNormalization, ScalePerChannel) {
  const auto op = made("GroupNormalization", {{"num_groups", 2}, {"epsilon", 1e-2}});
  expect_near(forward(*op, {pattern({1, 4, 1, 3}, 1), pattern({4}, 2), pattern({4}, 3)}).output(0), {1, 4, 1, 3},
              {-1.4801482, -0.03970373, -2.34441471, 1.20198524, 0.48176295, 1.63411856, 1.21029639, -1.67059267,
               0.12996295, -1.08610368, -0.50992596, -0.87003702},
              1e-6);
}

TEST(RmsNormalization, OneAxisAndTwo) {
  expect_near(
      forward(*made("RMSNormalization", {{"epsilon", 1e-2}}), {pattern({2, 2, 3}, 1), pattern({3}, 2)}).output(0),
      {2, 2, 3},
      {-0.29934216, -0.59868431, -1.49671078, 0.26893124, -0.80679369, -0.67232811, 0.88490832, 0.7374236, 0,
       1.39608908, 0.4188267, 0.69804454},
      5e-7);
  expect_near(
      forward(*made("RMSNormalization", {{"epsilon", 1e-2}, {"axis", 1}}), {pattern({2, 2, 3}, 1), pattern({2, 1}, 2)})
          .output(0),
      {2, 2, 3},
      {-0.28291816, 1.13167262, -1.13167262, -0.14145908, -0.84875447, 0.28291816, 0.860309, -1.43384826, 0,
       -0.71692413, 0.4301545, -0.28676966},
      5e-7);
  const std::vector<TensorSpec> mixed{{DType::bf16, {2, 3}}, {DType::f32, {3}}};
  EXPECT_EQ(to_string(made("RMSNormalization")->infer(mixed)[0]), "f32[2x3]");
}

TEST(Normalization, BadSizesAreNamed) {
  const TensorSpec x{DType::f32, {2, 6, 5}}, five{DType::f32, {5}}, six{DType::f32, {6}};
  EXPECT_EQ(infer_error("LayerNormalization", {}, {x, five, six}),
            "[layer_normalization] shapes 6 and 5 do not broadcast: sizes 6 and 5 differ and neither is 1");
  EXPECT_EQ(infer_error("LayerNormalization", {{"axis", 3}}, {x, five}),
            "[layer_normalization] axis 3 is out of range; a tensor of rank 3 has axes -3 to 2");
  EXPECT_EQ(infer_error("InstanceNormalization", {}, {x, six, five}),
            "[instance_normalization] B is 5; 6 values are wanted, one for each channel of the input (2x6x5)");
  EXPECT_EQ(infer_error("GroupNormalization", {{"num_groups", 4}}, {x, six, six}),
            "[group_normalization] num_groups is 4; it must divide the 6 channels of X (2x6x5)");
}

TEST(LayerNormalization, CasesHold) { expect_cases_hold("LayerNormalization"); }
TEST(InstanceNormalization, CasesHold) { expect_cases_hold("InstanceNormalization"); }
TEST(GroupNormalization, CasesHold) { expect_cases_hold("GroupNormalization"); }
TEST(RmsNormalization, CasesHold) { expect_cases_hold("RMSNormalization"); }

}  // namespace
}  // namespace d5
