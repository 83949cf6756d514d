// SPDX-License-Identifier: Apache-2.0
// Expected numbers: by hand, or from onnx 1.23 (reference evaluator) and onnxruntime 1.31, which agree.
#include "run_operator.hpp"

namespace d5 {
namespace {

TEST(MatMul, BroadcastsBatches) {
  const Context c = forward(*made("MatMul"), {pattern({2, 1, 2, 3}, 1), pattern({2, 3, 2}, 2)});
  expect_near(c.output(0), {2, 2, 2, 2},
              {-0.5, -0.125, 1.375, -0.5, 0.125, -0.3125, -1.75, 0.4375, -0.8125, -0.0625, 1.0625, -0.4375, 0.4375,
               -0.4375, -1.4375, 0.3125});
}

TEST(MatMul, VectorsLoseTheirAxis) {
  const auto op = made("MatMul");
  expect_near(forward(*op, {pattern({3}, 1), pattern({2, 3, 2}, 2)}).output(0), {2, 2}, {-0.5, -0.125, 0.125, -0.3125});
  expect_near(forward(*op, {pattern({2, 2, 3}, 1), pattern({3}, 2)}).output(0), {2, 2}, {-2, -1.125, 1.375, 2.25});
  expect_near(forward(*op, {doubles({2}, {1, 2}), doubles({2}, {3, 4})}).output(0), {}, {11});
}

TEST(MatMul, GradientSumsOverBroadcastBatches) {
  const auto op = made("MatMul");
  Context c = forward(*op, {doubles({2, 1, 2}, {1, 2, 3, 4}), doubles({2, 1}, {5, 6})});
  expect_near(c.output(0), {2, 1, 1}, {17, 39});
  backward(*op, c, doubles({2, 1, 1}, {1, 10}));
  expect_near(c.input_gradient(0), {2, 1, 2}, {5, 6, 50, 60});
  expect_near(c.input_gradient(1), {2, 1}, {31, 42});  // 1*1 + 10*3, 1*2 + 10*4
}

TEST(MatMul, IntegersWrapAround) {
  const Context c =
      forward(*made("MatMul"), {Tensor::from<int32_t>({1, 2}, {2147483647, 2}), Tensor::from<int32_t>({2, 1}, {2, 3})});
  EXPECT_EQ(c.output(0).values<int32_t>()[0], 4);  // as numpy and onnxruntime
  const Context u = forward(*made("MatMul"),
                            {Tensor::from<uint64_t>({1, 1}, {uint64_t{1} << 63}), Tensor::from<uint64_t>({1, 1}, {1})});
  EXPECT_EQ(u.output(0).values<uint64_t>()[0], uint64_t{1} << 63);
}

TEST(MatMul, BadShapesAreNamed) {
  EXPECT_EQ(infer_error("MatMul", {}, {{DType::f32, {2, 3}}, {DType::f32, {4, 5}}}),
            "[matmul] A is 2x3 and B is 4x5: inner sizes 3 and 4 differ");
  EXPECT_EQ(infer_error("MatMul", {}, {{DType::f32, {}}, {DType::f32, {4, 5}}}),
            "[matmul] A is scalar and B is 4x5: both need at least one axis");
  EXPECT_EQ(infer_error("MatMul", {}, {{DType::f32, {2, 3, 4}}, {DType::f32, {3, 4, 5}}}),
            "[matmul] shapes 2 and 3 do not broadcast: sizes 2 and 3 differ and neither is 1");
}

TEST(MatMul, CostsAndRounding) {
  const std::vector<TensorSpec> in{{DType::f32, {4, 2, 3}}, {DType::f32, {3, 5}}};
  EXPECT_EQ(made("MatMul")->cost(in, Pass::forward).flops, 4 * 2 * 2 * 3 * 5);
  EXPECT_EQ(made("MatMul")->cost(in, Pass::forward).bytes, 4 * (24 + 15 + 40));
  EXPECT_EQ(made("MatMul")->rounding(in, Pass::forward, 0).terms, 3);
  EXPECT_EQ(made("MatMul")->rounding(in, Pass::backward, 0).terms, 5);
  EXPECT_EQ(made("MatMul")->rounding(in, Pass::backward, 1).terms, 4 * 2);
}

TEST(MatMul, CasesHold) { expect_cases_hold("MatMul"); }

}  // namespace
}  // namespace d5
