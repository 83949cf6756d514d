// SPDX-License-Identifier: Apache-2.0
// Expected outputs: onnx 1.23 (reference evaluator) and onnxruntime 1.31, which agree. Gradients: complex steps in
// numpy.
#include "run_operator.hpp"

namespace d5 {
namespace {

std::vector<Tensor> inputs() {
  return {pattern({2, 2, 1, 3}, 1), doubles({2}, {1.5, -0.5}), doubles({2}, {0.25, 1.0}), doubles({2}, {0.5, -1.0}),
          doubles({2}, {2.0, 0.75})};
}

TEST(BatchNormalization, Inference) {
  const auto op = made("BatchNormalization", {{"epsilon", 1e-2}});
  Context c = forward(*op, inputs());
  ASSERT_EQ(c.outputs.size(), 1u);
  expect_near(c.output(0), {2, 2, 1, 3},
              {-0.543513817885, 0.779009211923, -1.33702763577, 0.283075831549, -0.433848336902, 0.71323033262,
               0.514504605962, -1.60153224173, -0.279009211923, -0.290463503212, 0.85661516631, 0.139690997859},
              1e-9);
  backward(*op, c, doubles({2, 2, 1, 3}, {1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_NEAR(c.input_gradient(0).values<double>()[0], 1.5 / std::sqrt(2.01), 1e-14);
  EXPECT_NEAR(c.input_gradient(0).values<double>()[4], -0.5 / std::sqrt(0.76), 1e-14);
  EXPECT_EQ(c.input_gradient(0).values<double>()[1], 0);
  expect_near(c.input_gradient(2), {2}, {1, 1});
}

TEST(BatchNormalization, Training) {
  const auto op = made("BatchNormalization", {{"epsilon", 1e-2}, {"momentum", 0.75}, {"training_mode", 1}});
  Context c = forward(*op, inputs());
  expect_near(c.output(0), {2, 2, 1, 3},
              {0.0246504370195, 2.27814606682, -1.32744694086, 1.07511652099, 0.323951311058, 1.52581564695,
               1.82744694086, -1.77814606682, 0.475349562981, 0.474184353045, 1.67604868894, 0.924883479006},
              1e-9);
  expect_near(c.output(1), {2}, {0.34375, -0.65625});
  expect_near(c.output(2), {2}, {1.67057291667, 0.733072916667}, 1e-9);
  backward(*op, c, pattern({2, 2, 1, 3}, 4));
  expect_near(c.input_gradient(0), {2, 2, 1, 3},
              {0.715042368848, -0.576292683087, -0.853792054609, 0.716127410379, -0.586058056865, -0.846196763893,
               0.853792054609, 0.576292683087, -0.715042368848, 0.846196763893, 0.586058056865, -0.716127410379},
              1e-9);
  expect_near(c.input_gradient(1), {2}, {0.863839991286, 2.32861215042}, 1e-9);
  expect_near(c.input_gradient(2), {2}, {-0.75, 0}, 1e-14);
}

TEST(BatchNormalization, OneAxisIsOneChannel) {
  const auto op = made("BatchNormalization", {{"training_mode", 1}, {"epsilon", 0.0}, {"momentum", 0.0}});
  const Context c = forward(
      *op, {doubles({4}, {1, 3, 1, 3}), doubles({1}, {2}), doubles({1}, {5}), doubles({1}, {0}), doubles({1}, {1})});
  expect_near(c.output(0), {4}, {3, 7, 3, 7});
  expect_near(c.output(1), {1}, {2});
  expect_near(c.output(2), {1}, {1});  // divided by N, not by N - 1
}

TEST(BatchNormalization, BadShapesAreNamed) {
  const TensorSpec x{DType::f32, {2, 3, 4}}, three{DType::f32, {3}}, four{DType::f32, {4}};
  EXPECT_EQ(infer_error("BatchNormalization", {}, {x, three, three, four, three}),
            "[batch_normalization] mean is 4; 3 values are wanted, one for each channel of X (2x3x4)");
  EXPECT_EQ(infer_error("BatchNormalization", {}, {x, three, three, three}),
            "[batch_normalization] input 4 is missing; 5 to 5 inputs are wanted");
}

TEST(BatchNormalization, CaseOfNarrowFloats) {
  const OperatorEntry& entry = registered<operators>("BatchNormalization");
  const OperatorCase one =
      entry.describe(complete_values("BatchNormalization", entry, {{"shape", "2x3x4"}}), DType::bf16);
  EXPECT_EQ(to_string(one.inputs[0].spec), "bf16[2x3x4]");
  for (size_t i = 1; i < 5; ++i) EXPECT_EQ(to_string(one.inputs[i].spec), "f32[3]");
  EXPECT_EQ(one.inputs[4].low, 0.5);
  EXPECT_EQ(one.inputs[4].high, 1.5);
  EXPECT_EQ(one.outputs, 3u);
  EXPECT_FALSE(one.inputs[3].differentiable);
  EXPECT_TRUE(one.inputs[1].parameter && one.inputs[2].parameter);
}

TEST(BatchNormalization, CasesHold) { expect_cases_hold("BatchNormalization"); }

}  // namespace
}  // namespace d5
