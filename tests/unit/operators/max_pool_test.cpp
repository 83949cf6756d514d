// SPDX-License-Identifier: Apache-2.0
// Expected outputs: the examples of the ONNX documentation, and onnxruntime 1.31 (with which the reference evaluator of
// onnx 1.23 agrees, but for SAME_LOWER, where it drops a row, and 3-D column-major indices).
#include <numeric>

#include "run_operator.hpp"

namespace d5 {
namespace {

using Integers = std::vector<int64_t>;

Tensor counted(Shape shape) {
  Tensor t(DType::f64, std::move(shape));
  const auto values = t.values<double>();
  std::iota(values.begin(), values.end(), 1.0);
  return t;
}

void expect_pool(const Tensor& x, const Attributes& a, const Shape& shape, const std::vector<double>& values,
                 const std::vector<double>& indices) {
  const Context c = forward(*made("MaxPool", a), {x});
  expect_near(c.output(0), shape, values);
  expect_near(c.output(1), shape, indices);
}

TEST(MaxPool, OnnxDocumentation) {
  expect_pool(counted({1, 1, 5, 5}), {{"kernel_shape", Integers{5, 5}}, {"pads", Integers{2, 2, 2, 2}}}, {1, 1, 5, 5},
              {13, 14, 15, 15, 15, 18, 19, 20, 20, 20, 23, 24, 25, 25, 25, 23, 24, 25, 25, 25, 23, 24, 25, 25, 25},
              {12, 13, 14, 14, 14, 17, 18, 19, 19, 19, 22, 23, 24, 24, 24, 22, 23, 24, 24, 24, 22, 23, 24, 24, 24});
  expect_pool(counted({1, 1, 4, 4}), {{"kernel_shape", Integers{3, 3}}, {"strides", Integers{2, 2}}, {"ceil_mode", 1}},
              {1, 1, 2, 2}, {11, 12, 15, 16}, {10, 11, 14, 15});
  // The second window would begin in the padding: it is dropped.
  expect_pool(counted({1, 1, 2, 2}), {{"kernel_shape", Integers{1, 1}}, {"strides", Integers{2, 2}}, {"ceil_mode", 1}},
              {1, 1, 1, 1}, {1}, {0});
  expect_pool(counted({1, 1, 4, 4}), {{"kernel_shape", Integers{2, 2}}, {"dilations", Integers{2, 2}}}, {1, 1, 2, 2},
              {11, 12, 15, 16}, {10, 11, 14, 15});
  expect_pool(counted({1, 1, 5, 5}),
              {{"kernel_shape", Integers{2, 2}}, {"strides", Integers{2, 2}}, {"storage_order", 1}}, {1, 1, 2, 2},
              {7, 9, 17, 19}, {6, 16, 8, 18});
}

TEST(MaxPool, AutoPadModes) {
  const auto expect = [](const std::string& mode, const Shape& shape, const std::vector<double>& values,
                         const std::vector<double>& indices) {
    expect_pool(pattern({1, 1, 5, 4}, 1),
                {{"kernel_shape", Integers{2, 3}}, {"strides", Integers{2, 2}}, {"auto_pad", mode}}, shape, values,
                indices);
  };
  expect("NOTSET", {1, 1, 2, 1}, {1.5, 1.25}, {4, 9});
  expect("VALID", {1, 1, 2, 1}, {1.5, 1.25}, {4, 9});
  expect("SAME_UPPER", {1, 1, 3, 2}, {1.5, 0.75, 1.25, 1, 1.5, 0.75}, {4, 6, 9, 14, 17, 19});
  expect("SAME_LOWER", {1, 1, 3, 2}, {1, 1, 1.5, 1.25, 1.5, 1.5}, {1, 1, 4, 9, 17, 17});
}

TEST(MaxPool, OneAndThreeAxes) {
  expect_pool(pattern({1, 2, 6}, 1),
              {{"kernel_shape", Integers{3}}, {"strides", Integers{2}}, {"pads", Integers{1, 0}}}, {1, 2, 3},
              {1, 1, 1.5, 0.75, 1.25, 1.25}, {1, 1, 4, 6, 9, 9});
  expect_pool(pattern({1, 1, 2, 3, 4}, 4), {{"kernel_shape", Integers{2, 2, 2}}, {"storage_order", 1}}, {1, 1, 1, 2, 3},
              {1.5, 1.5, 1, 1.5, 1.5, 1.25}, {2, 9, 15, 2, 9, 22});
}

TEST(MaxPool, Integers) {
  const Attributes two{{"kernel_shape", Integers{2, 2}}},
      padded{{"kernel_shape", Integers{2, 2}}, {"pads", Integers{1, 1, 0, 0}}};
  expect_near(
      forward(*made("MaxPool", two), {Tensor::from<uint8_t>({1, 1, 3, 3}, {1, 2, 200, 4, 5, 6, 7, 255, 9})}).output(0),
      {1, 1, 2, 2}, {5, 200, 255, 255});
  expect_near(
      forward(*made("MaxPool", padded), {Tensor::from<int8_t>({1, 1, 3, 3}, {-128, -2, -3, -4, -5, -6, -7, -8, -9})})
          .output(0),
      {1, 1, 3, 3}, {-128, -2, -2, -4, -2, -2, -4, -4, -5});
}

TEST(MaxPool, GradientGoesToTheFirstOfEqualWinners) {
  const auto op = made("MaxPool", {{"kernel_shape", Integers{2}}});
  Context c = forward(*op, {doubles({1, 1, 4}, {3, 3, 1, std::nan("")})});
  expect_near(c.output(0).reshaped({3}).slice(0, 2), {2}, {3, 3});
  EXPECT_TRUE(std::isnan(c.output(0).values<double>()[2]));
  backward(*op, c, doubles({1, 1, 3}, {1, 10, 100}));
  expect_near(c.input_gradient(0), {1, 1, 4}, {1, 10, 0, 100});
  // The scale of rounding errors: absolute gradients, sent to the same places.
  c.output_gradients[0] = doubles({1, 1, 3}, {1, -10, 100});
  expect_near(op->magnitude(c, Pass::backward, 0), {1, 1, 4}, {1, 10, 0, 100});
}

TEST(MaxPool, BadShapesAreNamed) {
  const auto error = [](const Attributes& a, Shape x) {
    return infer_error("MaxPool", a, {{DType::f32, std::move(x)}});
  };
  EXPECT_EQ(error({{"kernel_shape", Integers{3, 3}}}, {1, 1, 2, 5}),
            "[max_pool] kernel 3 with dilation 1 spans 3, more than the padded input of 2 (axis 0 of 2x5)");
  EXPECT_EQ(error({{"kernel_shape", Integers{2, 2}}, {"pads", Integers{0, 2, 0, 0}}}, {1, 1, 4, 4}),
            "[max_pool] the window of output 0 along axis 1 lies wholly in the padding (input 4, kernel 2, dilation 1, "
            "pad 2)");
  EXPECT_EQ(error({{"kernel_shape", Integers{2}}, {"dilations", Integers{3}}, {"pads", Integers{1, 1}}}, {1, 1, 2}),
            "[max_pool] the window of output 0 along axis 0 lies wholly in the padding (input 2, kernel 2, dilation 3, "
            "pad 1)");
  EXPECT_EQ(error({{"kernel_shape", Integers{2}}}, {1, 1, 4, 4}),
            "[max_pool] kernel_shape has 1 sizes; 2 are wanted for X of 1x1x4x4");
  EXPECT_EQ(error({{"kernel_shape", Integers{2}}}, {4, 4}), "[max_pool] X is 4x4, of rank 2; 3 to 5 axes are wanted");
}

TEST(MaxPool, CasesHold) { expect_cases_hold("MaxPool"); }

}  // namespace
}  // namespace d5
