// SPDX-License-Identifier: Apache-2.0
// AveragePool, GlobalAveragePool, GlobalMaxPool, LRN. Expected outputs: onnx 1.23 (reference evaluator) and onnxruntime
// 1.31, which agree; LRN: onnxruntime for odd sizes, and numpy:
//   b = [1 + 2 / 4 * (x[max(0, c - 1) : c + 3] ** 2).sum(0) for c in range(5)]; x / numpy.array(b) ** 0.75
#include "run_operator.hpp"

namespace d5 {
namespace {

using Integers = std::vector<int64_t>;

TEST(AveragePool, PaddingCountsOnlyWhereAsked) {
  const auto run = [](const Attributes& a) {
    return forward(*made("AveragePool", a), {pattern({1, 1, 6, 5}, 1)}).output(0);
  };
  Attributes a{{"kernel_shape", Integers{3, 3}}, {"pads", Integers{1, 1, 1, 1}}, {"strides", Integers{2, 2}}};
  expect_near(run(a), {1, 1, 3, 3}, {0.25, -0.125 / 3, 0.75, -0.125, -0.5 / 9, 0.375, -0.625, 0.5 / 3, -0.125});
  a.set("count_include_pad", int64_t{1});
  expect_near(run(a), {1, 1, 3, 3},
              {1.0 / 9, -0.25 / 9, 3.0 / 9, -0.75 / 9, -0.5 / 9, 0.25, -3.75 / 9, 0.5 / 3, -0.75 / 9});
}

TEST(AveragePool, CeilModeAutoPadAndDilation) {
  const auto run = [](const Attributes& a) {
    return forward(*made("AveragePool", a), {pattern({1, 1, 6, 5}, 1)}).output(0);
  };
  expect_near(run({{"kernel_shape", Integers{3, 2}}, {"strides", Integers{2, 2}}, {"ceil_mode", 1}}), {1, 1, 3, 3},
              {0.125, -0.625, 1.25, -0.375, -0.125 / 3, 0.75, -0.75, 0.125, 0.375});
  // The last column reaches one element into the padding; the last row reaches beyond it and counts two rows of three.
  expect_near(run({{"kernel_shape", Integers{3, 3}},
                   {"strides", Integers{2, 2}},
                   {"pads", Integers{1, 0, 0, 1}},
                   {"ceil_mode", 1},
                   {"count_include_pad", 1}}),
              {1, 1, 3, 3}, {-1.25 / 9, 0.75 / 9, 2.75 / 6, -2.0 / 9, 1.0 / 9, 0.5, 0, 3.0 / 9, 0.25});
  expect_near(run({{"kernel_shape", Integers{2, 3}}, {"strides", Integers{2, 2}}, {"auto_pad", "SAME_LOWER"}}),
              {1, 1, 3, 3}, {0.25, -0.125 / 3, 0.75, -0.25, 0, 0.25, -0.75, 0.125 / 3, -0.25});
  expect_near(run({{"kernel_shape", Integers{2, 2}}, {"dilations", Integers{2, 1}}}), {1, 1, 4, 4},
              {0.125, -0.25, -0.625, 0.625, -0.125, 0.3125, -0.0625, 0.375, -0.375, 0.0625, -0.3125, 0.125, -0.625,
               0.625, 0.25, -0.125});
}

TEST(AveragePool, TheGradientIsSharedOut) {
  const auto op = made("AveragePool", {{"kernel_shape", Integers{2}}, {"pads", Integers{1, 0}}});
  Context c = forward(*op, {doubles({1, 1, 3}, {1, 2, 3})});
  backward(*op, c, doubles({1, 1, 3}, {4, 2, 1}));
  expect_near(c.input_gradient(0), {1, 1, 3}, {4 + 1, 1 + 0.5, 0.5});
}

TEST(AveragePool, BadSizesAreNamed) {
  EXPECT_EQ(infer_error("AveragePool", {{"kernel_shape", Integers{2}}}, {{DType::f32, {1, 1, 4, 4}}}),
            "[average_pool] kernel_shape has 1 sizes; 2 are wanted for X of 1x1x4x4");
  EXPECT_EQ(
      infer_error("AveragePool", {{"kernel_shape", Integers{1}}, {"pads", Integers{1, 0}}}, {{DType::f32, {1, 1, 4}}}),
      "[average_pool] the window of output 0 along axis 0 lies wholly in the padding (input 4, kernel 1, dilation "
      "1, pad 1)");
}

TEST(GlobalPool, MeanAndMaximum) {
  const Tensor x = pattern({1, 2, 2, 3}, 1);
  expect_near(forward(*made("GlobalAveragePool"), {x}).output(0), {1, 2, 1, 1}, {1.0 / 6, 0.5 / 6});
  expect_near(forward(*made("GlobalMaxPool"), {x}).output(0), {1, 2, 1, 1}, {1.5, 1.25});
}

TEST(GlobalPool, TheFirstOfEqualValuesTakesTheGradient) {
  const auto op = made("GlobalMaxPool");
  Context c = forward(*op, {doubles({1, 2, 3}, {1, 5, 5, -2, -3, -2})});
  backward(*op, c, doubles({1, 2, 1}, {7, 8}));
  expect_near(c.input_gradient(0), {1, 2, 3}, {0, 7, 0, 8, 0, 0});
  EXPECT_EQ(infer_error("GlobalMaxPool", {}, {{DType::f32, {2, 3}}}),
            "[global_max_pool] X is 2x3, of rank 2; images, channels and at least one more axis are wanted");
}

TEST(Lrn, OddAndEvenWindows) {
  expect_near(
      forward(*made("LRN", {{"size", 3}, {"alpha", 0.5}, {"beta", 0.6}, {"bias", 1.5}}), {pattern({1, 5, 1, 2}, 1)})
          .output(0),
      {1, 5, 1, 2},
      {-0.18331888, 0.73327553, -0.64965534, 0.18063937, 0.95148444, -0.34994775, 0.49951315, -0.80960596, 0,
       0.81958079},
      5e-7);
  expect_near(forward(*made("LRN", {{"size", 4}, {"alpha", 2.0}}), {pattern({1, 5, 1, 2}, 1)}).output(0), {1, 5, 1, 2},
              {-0.120154017933, 0.684944813592, -0.445673276374, 0.128153815356, 0.673893909571, -0.236152772462,
               0.388200153923, -0.595523163263, 0, 0.617180374252},
              1e-9);
  EXPECT_EQ(infer_error("LRN", {}, {{DType::f32, {2, 3}}}),
            "[lrn] size is 0; a window of at least one channel is wanted");
}

TEST(AveragePool, CasesHold) { expect_cases_hold("AveragePool"); }
TEST(GlobalAveragePool, CasesHold) { expect_cases_hold("GlobalAveragePool"); }
TEST(GlobalMaxPool, CasesHold) { expect_cases_hold("GlobalMaxPool"); }
TEST(Lrn, CasesHold) { expect_cases_hold("LRN"); }

}  // namespace
}  // namespace d5
