// SPDX-License-Identifier: Apache-2.0
// Expected numbers: by hand, or from onnx 1.23 (reference evaluator) and onnxruntime 1.31, which agree.
#include "run_operator.hpp"

namespace d5 {
namespace {

TEST(Add, Broadcasts) {
  Context c = forward(*made("Add"), {pattern({2, 1, 3}, 1), pattern({2, 1}, 2)});
  expect_near(c.output(0), {2, 2, 3}, {0.75, 2, 0, -0.75, 0.5, -1.5, 1.25, 2.5, 0.5, -0.25, 1, -1});
  backward(*made("Add"), c, doubles({2, 2, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
  expect_near(c.input_gradient(0), {2, 1, 3}, {5, 7, 9, 17, 19, 21});
  expect_near(c.input_gradient(1), {2, 1}, {1 + 2 + 3 + 7 + 8 + 9, 4 + 5 + 6 + 10 + 11 + 12});
}

TEST(Add, IntegersWrapAround) {
  expect_near(forward(*made("Add"), {Tensor::from<uint8_t>({2}, {250, 3}), Tensor::from<uint8_t>({1}, {10})}).output(0),
              {2}, {4, 13});
  expect_near(forward(*made("Add"), {Tensor::from<int8_t>({1}, {127}), Tensor::from<int8_t>({}, {1})}).output(0), {1},
              {-128});
  const Context c = forward(*made("Add"), {Tensor::from<int64_t>({1}, {INT64_MAX}), Tensor::from<int64_t>({1}, {1})});
  EXPECT_EQ(c.output(0).values<int64_t>()[0], INT64_MIN);
}

TEST(Add, EmptyAndBadShapes) {
  expect_near(forward(*made("Add"), {Tensor(DType::f64, {0, 3}), doubles({3}, {1, 2, 3})}).output(0), {0, 3}, {});
  EXPECT_EQ(infer_error("Add", {}, {{DType::f32, {2, 3}}, {DType::f32, {2}}}),
            "[add] shapes 2x3 and 2 do not broadcast: sizes 3 and 2 differ and neither is 1");
  EXPECT_EQ(infer_error("Add", {}, {{DType::boolean, {2}}, {DType::boolean, {2}}}).substr(0, 23),
            "[add] element type bool");
}

TEST(Add, RoundingCountsTheLongestSum) {
  const std::vector<TensorSpec> in{{DType::f32, {4, 3}}, {DType::f32, {3}}};
  EXPECT_EQ(made("Add")->rounding(in, Pass::backward, 0).terms, 0);
  EXPECT_EQ(made("Add")->rounding(in, Pass::backward, 1).terms, 3);
}

TEST(Add, CasesHold) { expect_cases_hold("Add"); }

}  // namespace
}  // namespace d5
