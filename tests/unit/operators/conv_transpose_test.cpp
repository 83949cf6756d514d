// SPDX-License-Identifier: Apache-2.0
// Expected outputs: the examples of the ONNX documentation, and onnxruntime 1.31; onnx 1.23 (reference evaluator)
// agrees where it can compute the case.
#include <numeric>

#include "run_operator.hpp"

namespace d5 {
namespace {

using Integers = std::vector<int64_t>;

Tensor run(const Attributes& a, std::vector<Tensor> inputs) {
  return forward(*made("ConvTranspose", a), std::move(inputs)).output(0);
}

TEST(ConvTranspose, OnnxDocumentation) {
  const Tensor x = doubles({1, 1, 3, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8});
  const Tensor ones = doubles({1, 2, 3, 3}, std::vector<double>(18, 1.0));
  expect_near(run({}, {x, ones}), {1, 2, 5, 5},
              {0, 1, 3, 3, 2, 3, 8, 15, 12, 7, 9, 21, 36, 27, 15, 9, 20, 33, 24, 13, 6, 13, 21, 15, 8,
               0, 1, 3, 3, 2, 3, 8, 15, 12, 7, 9, 21, 36, 27, 15, 9, 20, 33, 24, 13, 6, 13, 21, 15, 8});
  expect_near(run({{"strides", Integers{3, 2}}, {"pads", Integers{1, 2, 1, 2}}}, {x, ones}), {1, 2, 7, 3},
              {1, 1, 3, 1, 1, 3, 7, 4, 9, 7, 4, 9, 7, 4, 9, 13, 7, 15, 13, 7, 15,
               1, 1, 3, 1, 1, 3, 7, 4, 9, 7, 4, 9, 7, 4, 9, 13, 7, 15, 13, 7, 15});
  expect_near(run({{"dilations", Integers{2, 2}}},
                  {doubles({1, 1, 3, 3}, {3, 8, 1, 9, 5, 7, 3, 2, 6}), doubles({1, 1, 2, 2}, {7, 2, 1, 9})}),
              {1, 1, 5, 5},
              {21, 56, 13, 16, 2, 63, 35, 67, 10, 14, 24, 22, 76, 76, 21, 9, 5, 88, 45, 63, 3, 2, 33, 18, 54});
}

TEST(ConvTranspose, GroupsDilationAsymmetricPadsAndOutputPadding) {
  expect_near(run({{"group", 2},
                   {"strides", Integers{2, 1}},
                   {"pads", Integers{1, 0, 0, 1}},
                   {"dilations", Integers{1, 2}},
                   {"output_padding", Integers{1, 0}}},
                  {pattern({1, 4, 3, 2}, 1), pattern({4, 2, 2, 3}, 2), pattern({4}, 3)}),
              {1, 4, 6, 5},
              {0,      -2.8125, -1.5625, 0.8125,  0.125,  -2,      -1.6875, -0.5,    0.125,   -2.25,   -0.75,   0.5,
               -2.5,   -0.9375, -1,      1.0625,  -1.875, -2.5,    -0.25,   1.25,    -2.3125, -0.25,   1.4375,  -1.875,
               -2.125, -1,      -1,      -1,      -1,     -1,      0.1875,  3.3125,  1.875,   -0.375,  0.3125,  2.75,
               0.875,  1,       -0.5625, 2.5,     0.75,   -0.1875, 2.25,    1.625,   0.5,     -1,      2,       2.75,
               0.375,  -0.8125, 2.9375,  0.375,   -0.625, 2,       3.125,   1.25,    1.25,    1.25,    1.25,    1.25,
               0.5,    1.125,   -1.375,  -0.4375, 0,      2.25,    -0.5,    -1.4375, 1,       2.1875,  -1.5,    0.75,
               2.125,  -1,      -1.5625, -0.8125, 2.125,  1,       -1.4375, -0.4375, 1.375,   -1.25,   -0.0625, 2.5,
               1.75,   0.25,    0.25,    0.25,    0.25,   0.25,    -0.375,  -1.9375, 1,       -0.25,   -0.875,  1.0625,
               -2.25,  -2.625,  -0.75,   -2.25,   1.375,  -1,      -2.3125, 0.5,     1.3125,  -0.6875, 1.6875,  1.125,
               -1.875, -1.125,  -2.5625, 0.75,    -0.75,  -2.8125, -2.1875, -0.75,   -0.75,   -0.75,   -0.75,   -0.75});
}

TEST(ConvTranspose, TheOutputShapeDecidesThePads) {
  const std::vector<Tensor> inputs{pattern({1, 1, 3, 2}, 1), pattern({1, 1, 2, 3}, 2)};
  // 6 x 5 without pads; the odd element of padding is cut at the beginning.
  const std::vector<double> lower{0.125, 0.6875,  -0.5,  1.25, -0.375, -0.25, 1.5,  0,      0.5,  -1,    -0.125, 0.3125,
                                  -1.5,  -0.0625, 0.375, 0,    -0.75,  1.375, 0.25, -0.625, 2.25, 0.125, -0.75,  0};
  expect_near(run({{"strides", Integers{2, 2}}, {"auto_pad", "SAME_LOWER"}}, inputs), {1, 1, 6, 4}, lower);
  expect_near(run({{"strides", Integers{2, 2}}, {"output_shape", Integers{6, 4}}}, inputs), {1, 1, 6, 4}, lower);
  const Tensor upper = run({{"strides", Integers{2, 2}}, {"auto_pad", "SAME_UPPER"}},
                           {pattern({1, 1, 3, 3}, 1), pattern({1, 2, 3, 3}, 2)});
  EXPECT_EQ(to_string(upper.shape()), "1x2x6x6");
  const auto first = list(upper);
  for (const auto& [i, value] : {std::pair{0, -0.25}, {1, 0.125}, {6, 0.0625}, {12, 0.625}, {35, 0.0}, {66, -0.5625}})
    EXPECT_NEAR(first[i], value, 1e-12) << i;
}

TEST(ConvTranspose, BadSizesAreNamed) {
  const TensorSpec x{DType::f32, {1, 4, 5, 5}}, w{DType::f32, {4, 2, 3, 3}};
  EXPECT_EQ(infer_error("ConvTranspose", {}, {x, {DType::f32, {3, 2, 3, 3}}}),
            "[conv_transpose] X is 1x4x5x5 and W is 3x2x3x3: X has 4 channels and W takes 3");
  EXPECT_EQ(infer_error("ConvTranspose", {{"group", 3}}, {x, w}),
            "[conv_transpose] group is 3, which does not divide the 4 channels of X (1x4x5x5)");
  EXPECT_EQ(infer_error("ConvTranspose", {{"output_padding", Integers{2, 0}}, {"strides", Integers{2, 2}}}, {x, w}),
            "[conv_transpose] output_padding is 2,0; it must be less than the stride (2) or the dilation (1)");
  EXPECT_EQ(infer_error("ConvTranspose", {{"group", 2}}, {x, w, {DType::f32, {2}}}),
            "[conv_transpose] B is 2; 4 values are wanted, one for each output channel");
  EXPECT_EQ(infer_error("ConvTranspose", {{"pads", Integers{4, 0, 3, 0}}}, {x, w}),
            "[conv_transpose] Y would be 0 along axis 0; sizes from 1 to 2147483647 are legal (X 5x5, kernel 3x3, pads "
            "4,0,3,0)");
}

TEST(ConvTranspose, CasesHold) { expect_cases_hold("ConvTranspose"); }

}  // namespace
}  // namespace d5
