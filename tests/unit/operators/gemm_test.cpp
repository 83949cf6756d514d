// SPDX-License-Identifier: Apache-2.0
// Expected numbers: by hand, or from onnx 1.23 (reference evaluator) and onnxruntime 1.31, which agree.
#include "run_operator.hpp"

namespace d5 {
namespace {

TEST(Gemm, HandComputed) {
  // [1 2; 3 4] [5 6; 7 8] = [19 22; 43 50], then 2 * that + 10 * [1 -1]
  const auto op = made("Gemm", {{"alpha", 2.0}, {"beta", 10.0}});
  Context c = forward(*op, {doubles({2, 2}, {1, 2, 3, 4}), doubles({2, 2}, {5, 6, 7, 8}), doubles({2}, {1, -1})});
  expect_near(c.output(0), {2, 2}, {48, 34, 96, 90});
  backward(*op, c, doubles({2, 2}, {1, 0, 0, -1}));
  expect_near(c.input_gradient(0), {2, 2}, {10, 14, -12, -16});  // 2 dY B^T
  expect_near(c.input_gradient(1), {2, 2}, {2, -6, 4, -8});      // 2 A^T dY
  expect_near(c.input_gradient(2), {2}, {10, -10});              // 10 x column sums
}

TEST(Gemm, AllAttributes) {
  const auto op = made("Gemm", {{"alpha", 0.25}, {"beta", 0.5}, {"transA", 1}, {"transB", 1}});
  const Context c = forward(*op, {pattern({4, 3}, 1), pattern({5, 4}, 2), pattern({1, 5}, 3)});
  expect_near(c.output(0), {3, 5},
              {-0.4375, 0.328125, 0.28125, 0.03125, 0.390625, -0.78125, 1.421875, 0.171875, -0.265625, 1.53125,
               -0.71875, 0.28125, 0.46875, -0.15625, 0.4375});
}

TEST(Gemm, BroadcastsScalarAndColumn) {
  const auto op = made("Gemm");
  expect_near(forward(*op, {pattern({2, 3}, 1), pattern({3, 4}, 2), doubles({}, {3})}).output(0), {2, 4},
              {5.5, 2.625, 2.1875, 2.5625, 6.125, 2.625, 1.5625, 2.9375});
  Context c = forward(*op, {pattern({2, 3}, 1), pattern({3, 2}, 2), pattern({2, 1}, 4)});
  expect_near(c.output(0), {2, 2}, {-0.25, 0.125, 1.125, -0.75});
  backward(*op, c, doubles({2, 2}, {1, 2, 3, 4}));
  expect_near(c.input_gradient(2), {2, 1}, {3, 7});
}

TEST(Gemm, EmptySumIsZero) {
  const Context c =
      forward(*made("Gemm"), {Tensor(DType::f64, {2, 0}), Tensor(DType::f64, {0, 2}), doubles({2}, {1, 2})});
  expect_near(c.output(0), {2, 2}, {1, 2, 1, 2});
}

TEST(Gemm, IntegersInTheirOwnType) {
  const auto op = made("Gemm", {{"alpha", 3.0}});
  const Context c = forward(*op, {Tensor::from<int64_t>({1, 2}, {(int64_t{1} << 53) + 1, 1}),
                                  Tensor::from<int64_t>({2, 1}, {1, 2}), Tensor::from<int64_t>({1}, {-1})});
  EXPECT_EQ(c.output(0).values<int64_t>()[0], 3 * ((int64_t{1} << 53) + 3) - 1);  // a double would lose the last bit
  const Context wrapped =
      forward(*made("Gemm"), {Tensor::from<int32_t>({1, 1}, {1 << 30}), Tensor::from<int32_t>({1, 1}, {4})});
  EXPECT_EQ(wrapped.output(0).values<int32_t>()[0], 0);
}

TEST(Gemm, BadShapesAreNamed) {
  const TensorSpec a{DType::f32, {2, 3}}, b{DType::f32, {4, 5}};
  EXPECT_EQ(infer_error("Gemm", {}, {a, b}), "[gemm] A is 2x3 and B is 4x5: inner sizes 3 and 4 differ");
  EXPECT_EQ(infer_error("Gemm", {{"transB", 1}}, {a, b}),
            "[gemm] A is 2x3 and B is 4x5 transposed: inner sizes 3 and 5 differ");
  EXPECT_EQ(infer_error("Gemm", {}, {a}), "[gemm] input 1 is missing; 2 to 3 inputs are wanted");
  EXPECT_EQ(infer_error("Gemm", {}, {a, {DType::f32, {3, 2}}, {DType::f32, {3}}}),
            "[gemm] shapes 3 and 2x2 do not broadcast: sizes 3 and 2 differ and neither is 1");
  EXPECT_EQ(infer_error("Gemm", {}, {a, {DType::f32, {3, 2}}, {DType::f32, {1, 1, 1}}}),
            "[gemm] C is 1x1x1 and does not broadcast to 2x2");
  EXPECT_EQ(infer_error("Gemm", {}, {{DType::f32, {3}}, b}), "[gemm] A is 3, of rank 1; rank 2 is wanted");
  EXPECT_EQ(infer_error("Gemm", {}, {a, {DType::f64, {3, 2}}}),
            "[gemm] inputs are of types f32 and f64; one type is wanted");
  EXPECT_EQ(infer_error("Gemm", {}, {{DType::i8, {2, 3}}, {DType::i8, {3, 2}}}),
            "[gemm] element type i8 is not defined by ONNX; legal: f32, f64, f16, bf16, i32, i64, u32, u64");
  EXPECT_EQ(infer_error("Gemm", {{"alpha", 0.5}}, {{DType::i32, {2, 3}}, {DType::i32, {3, 2}}}),
            "[gemm] alpha 0.5 and beta 1 must be whole numbers for i32");
  const Index large = Index{1} << 40;
  EXPECT_EQ(infer_error("Gemm", {}, {{DType::f32, {large, 1}}, {DType::f32, {1, large}}}),
            "[gemm] output: [shape] 1099511627776x1099511627776 has more than 2^62 elements");
  EXPECT_THROW(made("Gemm", {{"transa", 1}}), UsageError);
}

TEST(Gemm, CostsAndRounding) {
  const auto op = made("Gemm");
  const std::vector<TensorSpec> in{{DType::f32, {2, 3}}, {DType::f32, {3, 5}}, {DType::f32, {5}}};
  EXPECT_EQ(op->cost(in, Pass::forward).flops, 2 * 2 * 3 * 5 + 10);
  EXPECT_EQ(op->cost(in, Pass::forward).bytes, 4 * (6 + 15 + 5 + 10));
  EXPECT_EQ(op->cost(in, Pass::backward).flops, 4 * 2 * 3 * 5 + 10);
  EXPECT_EQ(op->cost(in, Pass::backward).bytes, 4 * (6 + 15 + 10 + 6 + 15 + 5));
  EXPECT_EQ(op->rounding(in, Pass::forward, 0).terms, 3);
  EXPECT_EQ(op->rounding(in, Pass::backward, 0).terms, 5);
  EXPECT_EQ(op->rounding(in, Pass::backward, 1).terms, 2);
  EXPECT_EQ(op->rounding(in, Pass::backward, 2).terms, 2);
  EXPECT_TRUE(op->rounding(in, Pass::forward, 0).exact);
  EXPECT_FALSE(made("Gemm", {{"alpha", 0.3}})->rounding(in, Pass::forward, 0).exact);
}

TEST(Gemm, CasesHold) { expect_cases_hold("Gemm"); }

}  // namespace
}  // namespace d5
