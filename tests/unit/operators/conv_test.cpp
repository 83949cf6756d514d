// SPDX-License-Identifier: Apache-2.0
// Expected outputs: the examples of the ONNX documentation, and onnx 1.23 (reference evaluator) and onnxruntime 1.31,
// which agree on every one. Expected gradients: complex steps through a convolution written with numpy slices.
#include <numeric>

#include "d5/core/parallel.hpp"
#include "run_operator.hpp"

namespace d5 {
namespace {

using Integers = std::vector<int64_t>;

Tensor counted(Shape shape) {
  Tensor t(DType::f64, std::move(shape));
  const auto values = t.values<double>();
  std::iota(values.begin(), values.end(), 0.0);
  return t;
}

TEST(Conv, OnnxDocumentation) {
  const Tensor square = counted({1, 1, 5, 5}), tall = counted({1, 1, 7, 5});
  const Tensor ones = doubles({1, 1, 3, 3}, std::vector<double>(9, 1.0));
  const auto run = [&](const Tensor& x, const Attributes& a) { return forward(*made("Conv", a), {x, ones}).output(0); };
  expect_near(
      run(square, {{"kernel_shape", Integers{3, 3}}, {"pads", Integers{1, 1, 1, 1}}}), {1, 1, 5, 5},
      {12, 21, 27, 33, 24, 33, 54, 63, 72, 51, 63, 99, 108, 117, 81, 93, 144, 153, 162, 111, 72, 111, 117, 123, 84});
  expect_near(run(square, {}), {1, 1, 3, 3}, {54, 63, 72, 99, 108, 117, 144, 153, 162});
  expect_near(run(tall, {{"strides", Integers{2, 2}}, {"pads", Integers{1, 1, 1, 1}}}), {1, 1, 4, 3},
              {12, 27, 24, 63, 108, 81, 123, 198, 141, 112, 177, 124});
  expect_near(run(tall, {{"strides", Integers{2, 2}}}), {1, 1, 3, 2}, {54, 72, 144, 162, 234, 252});
  expect_near(run(tall, {{"strides", Integers{2, 2}}, {"pads", Integers{1, 0, 1, 0}}}), {1, 1, 4, 2},
              {21, 33, 99, 117, 189, 207, 171, 183});
  expect_near(run(square, {{"strides", Integers{2, 2}}, {"auto_pad", "SAME_LOWER"}}), {1, 1, 3, 3},
              {12, 27, 24, 63, 108, 81, 72, 117, 84});
}

TEST(Conv, AutoPadModes) {
  const auto run = [&](const std::string& mode) {
    const auto op = made("Conv", {{"auto_pad", mode}, {"strides", Integers{2, 1}}});
    return forward(*op, {pattern({1, 2, 5, 4}, 1), pattern({2, 2, 2, 3}, 2), pattern({2}, 3)}).output(0);
  };
  const std::vector<double> unpadded{-2.25, 3.5625, -1.25, 3.75, 5.25, -4.625, 1, -4.8125};
  expect_near(run("NOTSET"), {1, 2, 2, 2}, unpadded);
  expect_near(run("VALID"), {1, 2, 2, 2}, unpadded);
  expect_near(run("SAME_UPPER"), {1, 2, 3, 4},
              {0.6875, -2.25, 3.5625, -7.375, -3.9375, -1.25, 3.75,    -7.375, -0.0625, 1,      0.875,  0.3125,
               3,      5.25,  -4.625, 5.4375, 3.8125,  1,     -4.8125, 5.1875, 2,       1.6875, 1.4375, 2.75});
  expect_near(run("SAME_LOWER"), {1, 2, 3, 4},
              {-0.125, 0.875, -4.5625, 1,  0.8125, 3.125,  -5.6875, 3.1875, 2.6875, -2.375, -2.25, 1.5625,
               2.1875, -0.5,  4.5,     -2, 3,      -0.125, 7.0625,  -5.25,  -0.25,  5.375,  5.25,  -1.4375});
}

TEST(Conv, GroupsDilationAsymmetricPads) {
  const auto op = made("Conv", {{"group", 2}, {"dilations", Integers{2, 3}}, {"pads", Integers{1, 0, 0, 1}}});
  Context c = forward(*op, {pattern({1, 4, 5, 5}, 1), pattern({2, 2, 2, 2}, 2), pattern({2}, 3)});
  expect_near(c.output(0), {1, 2, 4, 3},
              {-4.1875, 0.375,  -3.6875, -6.75, 0.3125, -3.125, -1.5, -0.125, 0.375, -1.9375, -0.5625, -0.1875,
               1.4375,  -0.375, 1,       1.5,   1.5,    2.8125, 1.5,  -0.125, 1.25,  -0.125,  -0.125,  2.125});
  backward(*op, c, pattern({1, 2, 4, 3}, 4));
  expect_near(c.input_gradient(0).reshaped({4, 25}).slice(1, 1), {1, 25},
              {-1.875,  2.25,  1.5,   0, 0,    0.375, 0.375, 0.375, 0.0625, -0.0625, 0.375, -4.5,  0.375,
               -0.3125, 0.375, -0.75, 0, 0.75, 0.125, 0,     1.5,   2.25,   -1.875,  -0.25, -0.375});
  expect_near(c.input_gradient(1), {2, 2, 2, 2},
              {-0.6875, 0.6875, 2.375, 1.25, 3.375, 2.875, -0.75, 1.8125, 2, 1.875, -0.375, 1.5, -4.4375, -1.3125,
               -1.25, -0.5});
  expect_near(c.input_gradient(2), {2}, {-0.75, -1.25});
}

TEST(Conv, OneAndThreeAxes) {
  const auto one = made("Conv", {{"pads", Integers{2, 0}}, {"strides", Integers{2}}});
  expect_near(forward(*one, {pattern({2, 1, 6}, 1), pattern({2, 1, 3}, 2)}).output(0), {2, 2, 3},
              {-0.3125, -2, 0.75, 0, 1.5625, 0.625, 0.9375, 1.375, -1.5625, 0, -2.0625, 1.875});
  const auto three = made("Conv", {{"pads", Integers{0, 0, 1, 0, 0, 0}}, {"strides", Integers{1, 2, 1}}});
  expect_near(forward(*three, {pattern({1, 1, 3, 3, 3}, 1), pattern({1, 1, 2, 2, 2}, 2), pattern({1}, 3)}).output(0),
              {1, 1, 2, 1, 3}, {-1.3125, 2.25, 2, -1.25, -1.625, -3.5});
}

TEST(Conv, EmptyBatch) {
  Context c = forward(*made("Conv"), {Tensor(DType::f64, {0, 1, 3, 3}), pattern({2, 1, 2, 2}, 1)});
  expect_near(c.output(0), {0, 2, 2, 2}, {});
  backward(*made("Conv"), c, Tensor(DType::f64, {0, 2, 2, 2}));
  expect_near(c.input_gradient(1), {2, 1, 2, 2}, std::vector<double>(8, 0.0));
}

TEST(Conv, BadShapesAreNamed) {
  const auto error = [](const Attributes& a, Shape x, Shape w) {
    return infer_error("Conv", a, {{DType::f32, std::move(x)}, {DType::f32, std::move(w)}});
  };
  EXPECT_EQ(error({}, {1, 1, 4, 4}, {1, 1, 5, 5}),
            "[conv] kernel 5 with dilation 1 spans 5, more than the padded input of 4 (axis 0 of 4x4)");
  EXPECT_EQ(error({{"dilations", Integers{1, 3}}}, {1, 1, 4, 6}, {1, 1, 3, 3}),
            "[conv] kernel 3 with dilation 3 spans 7, more than the padded input of 6 (axis 1 of 4x6)");
  EXPECT_EQ(error({{"group", 3}}, {1, 4, 4, 4}, {3, 1, 1, 1}),
            "[conv] group is 3, which does not divide the 4 channels of X (1x4x4x4) and the 3 of W (3x1x1x1)");
  EXPECT_EQ(error({}, {1, 4, 4, 4}, {3, 2, 1, 1}),
            "[conv] X is 1x4x4x4 and W is 3x2x1x1: with group 1 W takes 2 channels, and 4 are there");
  EXPECT_EQ(error({}, {4, 4}, {3, 2}), "[conv] X is 4x4 and W is 3x2: both are wanted with the same 3 to 5 axes");
  EXPECT_EQ(error({{"strides", Integers{0, 1}}}, {1, 1, 4, 4}, {1, 1, 1, 1}),
            "[conv] strides is 0,1; values from 1 to 2147483647 are legal");
  EXPECT_EQ(error({{"pads", Integers{1, 1}}}, {1, 1, 4, 4}, {1, 1, 1, 1}),
            "[conv] pads has 2 values (1,1); 4 are wanted");
  EXPECT_EQ(error({{"pads", Integers{1, 1, 1, 1}}, {"auto_pad", "VALID"}}, {1, 1, 4, 4}, {1, 1, 1, 1}),
            "[conv] pads 1,1,1,1 and auto_pad VALID exclude each other");
  EXPECT_EQ(error({{"auto_pad", "same"}}, {1, 1, 4, 4}, {1, 1, 1, 1}),
            "[conv] auto_pad is 'same'; legal: NOTSET, SAME_UPPER, SAME_LOWER, VALID");
  EXPECT_EQ(error({{"kernel_shape", Integers{2, 2}}}, {1, 1, 4, 4}, {1, 1, 1, 1}),
            "[conv] kernel_shape is 2x2 but W is 1x1x1x1");
  EXPECT_EQ(infer_error("Conv", {}, {{DType::f32, {1, 1, 4}}, {DType::f32, {2, 1, 1}}, {DType::f32, {3}}}),
            "[conv] B is 3; 2 values are wanted, one for each output channel");
  EXPECT_EQ(error({{"pads", Integers{0, 2147483647}}}, {1 << 20, 1, 1}, {1 << 20, 1, 1}),
            "[conv] output: [shape] 1048576x1048576x2147483648 has more than 2^62 elements");
}

TEST(Conv, CostsAndRounding) {
  const std::vector<TensorSpec> in{{DType::f32, {2, 4, 3, 3}}, {DType::f32, {6, 2, 3, 3}}, {DType::f32, {6}}};
  const auto op = made("Conv", {{"group", 2}, {"pads", Integers{1, 1, 1, 1}}});
  // Taps inside the input: along each axis 2 + 3 + 2 of 9.
  EXPECT_EQ(op->cost(in, Pass::forward).flops, 2.0 * 2 * 6 * 2 * 49 + 2 * 6 * 9);
  EXPECT_EQ(op->cost(in, Pass::forward).bytes, 4 * (72 + 108 + 6 + 108));
  EXPECT_EQ(op->rounding(in, Pass::forward, 0).terms, 2 * 9 + 1);
  EXPECT_EQ(op->rounding(in, Pass::backward, 0).terms, 3 * 9);
  EXPECT_EQ(op->rounding(in, Pass::backward, 1).terms, 2 * 9);
  EXPECT_EQ(op->rounding(in, Pass::backward, 2).terms, 2 * 9);
}

TEST(Conv, ParametersDescribeACase) {
  const OperatorEntry& entry = registered<operators>("Conv");
  const auto values = complete_values(
      "Conv", entry, {{"size", "9x8x7"}, {"filter", "3"}, {"pads", "0x1x2x3x4x5"}, {"c", 4}, {"groups", 2}});
  const OperatorCase one = entry.describe(values, DType::bf16);
  EXPECT_EQ(to_string(one.inputs[0].spec), "bf16[16x4x9x8x7]");
  EXPECT_EQ(to_string(one.inputs[1].spec), "bf16[64x2x3x3x3]");
  EXPECT_TRUE(one.inputs[1].parameter && one.inputs[2].parameter && !one.inputs[0].parameter);
  EXPECT_EQ(one.attributes.integers("pads"), (Integers{0, 1, 2, 3, 4, 5}));
  EXPECT_THROW(entry.describe(complete_values("Conv", entry, {{"groups", 5}}), DType::f32), UsageError);
  EXPECT_THROW(entry.describe(complete_values("Conv", entry, {{"size", "1x2x3x4"}}), DType::f32), UsageError);
}

TEST(Conv, ThreadsDoNotChangeABit) {
  const OperatorEntry& entry = registered<operators>("Conv");
  const Attributes values{{"n", 2}, {"c", 32}, {"k", 32}, {"size", "28x28"}, {"pad", "1"}};
  const OperatorCase one = entry.describe(complete_values("Conv", entry, values), DType::f32);
  const auto op = entry.make(one.attributes);
  const int before = threads();
  std::vector<std::vector<double>> results[2];
  for (const int n : {1, 2}) {
    set_threads(n);
    Context c = separated_context(*op, one, 9);
    op->forward(c);
    op->backward(c);
    results[n - 1] = {list(c.output(0)), list(c.input_gradient(0)), list(c.input_gradient(1)),
                      list(c.input_gradient(2))};
  }
  set_threads(before);
  EXPECT_EQ(results[0], results[1]);
}

TEST(Conv, CasesHold) { expect_cases_hold("Conv"); }

}  // namespace
}  // namespace d5
