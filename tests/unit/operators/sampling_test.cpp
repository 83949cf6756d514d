// SPDX-License-Identifier: Apache-2.0
// Expected values: ONNX's node tests gridsample*, affine_grid_2d, col2im, maxunpool*, nonmaxsuppression*, deform_conv*
// (1.23).
#include "run_operator.hpp"

namespace d5 {
namespace {

Tensor indices(const std::vector<int64_t>& list) {
  return Tensor::from<int64_t>({static_cast<Index>(list.size())}, list);
}

class GridSampling : public testing::Test {
 protected:
  const Tensor x = doubles({1, 1, 3, 2}, {0, 1, 2, 3, 4, 5});
  const Tensor inside = doubles({1, 2, 4, 2}, {-1, -1, -0.5, -0.5, -0.2, -0.2, 0, 0, 0, 0, -0.2, -0.2, 0.5, 0.5, 1, 1});
  const Tensor far = doubles({1, 2, 4, 2}, {-10, -10, -5, -5, -0.2, -0.2, 10, 10, 10, 10, -0.2, -0.2, 5, 5, 10, 10});
  // The tests hold four decimals.
  void expect(const Attributes& a, const Tensor& grid, const std::vector<double>& wanted) {
    expect_near(forward(*made("GridSample", a), {x, grid}).output(0), {1, 1, 2, 4}, wanted, 0.51e-4);
  }
};

TEST_F(GridSampling, Modes) {
  expect({{"align_corners", 1}}, inside, {0, 1.25, 2, 2.5, 2.5, 2, 3.75, 5});
  expect({{"mode", "nearest"}}, inside, {0, 0, 2, 2, 2, 2, 5, 0});
  expect({{"mode", "cubic"}}, inside, {-0.1406, 0.3828, 1.7556, 2.9688, 2.9688, 1.7556, 5.1445, 1.3906});
}

TEST_F(GridSampling, Outside) {
  expect({{"padding_mode", "border"}}, far, {0, 0, 1.7, 5, 5, 1.7, 5, 5});
  expect({{"padding_mode", "reflection"}}, far, {2.5, 0, 1.7, 2.5, 2.5, 1.7, 5, 2.5});
  expect({{"padding_mode", "zeros"}}, far, {0, 0, 1.7, 0, 0, 1.7, 0, 0});
}

// The gradient of the grid, too, away from kinks.
TEST_F(GridSampling, GradientOfTheGrid) {
  for (const char* mode : {"linear", "cubic"})
    for (const char* padding : {"zeros", "border", "reflection"}) {
      const OperatorCase one{.inputs = {{.spec = {DType::f64, {1, 2, 4, 5}}},
                                        {.spec = {DType::f64, {1, 2, 2, 2}}, .low = -0.71, .high = 0.77}},
                             .attributes = {{"mode", mode}, {"padding_mode", padding}}};
      for (const GradientDeviation& d : check_gradient(*made("GridSample", one.attributes), one, 3))
        EXPECT_LE(d.worst, d.tolerance) << mode << " " << padding << " input " << d.input;
    }
}

TEST(AffineGrid, OnnxExample) {
  const Tensor theta = doubles(
      {1, 2, 3}, {1.088944435119629, -3.2880465984344482, 5, 2.022325277328491, 1.096015453338623, -3.299999952316284});
  const auto y = list(forward(*made("AffineGrid"), {theta, indices({1, 3, 5, 6})}).output(0));
  EXPECT_NEAR(y[0], 6.722983360290527, 1e-6);
  EXPECT_NEAR(y[1], -5.862083435058594, 1e-6);
  EXPECT_NEAR(y[3], -5.18797492980957, 1e-6);
  EXPECT_NEAR(y[12], 5.407764911651611, 1e-6);
  EXPECT_NEAR(y[59], -0.7379165291786194, 1e-6);
}

TEST(Col2Im, OnnxExample) {
  const Tensor columns =
      doubles({1, 5, 5}, {1, 6, 11, 16, 21, 2, 7, 12, 17, 22, 3, 8, 13, 18, 23, 4, 9, 14, 19, 24, 5, 0, 15, 20, 25});
  expect_near(forward(*made("Col2Im"), {columns, indices({5, 5}), indices({1, 5})}).output(0), {1, 1, 5, 5},
              {1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25});
  EXPECT_EQ(infer_error("Col2Im", {}, {{DType::f32, {1, 5, 4}}, known_spec({5, 5}), known_spec({1, 5})}),
            "[col2im] X is 1x5x4; a multiple of 5 taps and 5 blocks are wanted");
}

TEST(MaxUnpool, IntoALargerImage) {
  const Tensor x = doubles({1, 1, 2, 2}, {5, 6, 7, 8}), at = Tensor::from<int64_t>({1, 1, 2, 2}, {5, 7, 13, 15});
  const Attributes a{{"kernel_shape", std::vector<int64_t>{2, 2}}, {"strides", std::vector<int64_t>{2, 2}}};
  expect_near(forward(*made("MaxUnpool", a), {x, at, indices({1, 1, 5, 5})}).output(0), {1, 1, 5, 5},
              {0, 0, 0, 0, 0, 0, 5, 0, 6, 0, 0, 0, 0, 0, 0, 0, 7, 0, 8, 0, 0, 0, 0, 0, 0});
}

TEST(NonMaxSuppression, OnnxExamples) {
  const Tensor boxes =
      doubles({1, 6, 4}, {0, 0, 1, 1, 0, 0.1, 1, 1.1, 0, -0.1, 1, 0.9, 0, 10, 1, 11, 0, 10.1, 1, 11.1, 0, 100, 1, 101});
  const Tensor scores = doubles({1, 2, 6}, {0.9, 0.75, 0.6, 0.95, 0.5, 0.3, 0.9, 0.75, 0.6, 0.95, 0.5, 0.3});
  const auto kept = [&](std::vector<Tensor> more) {
    std::vector<Tensor> in{boxes, scores};
    in.insert(in.end(), more.begin(), more.end());
    return list(forward(*made("NonMaxSuppression"), in).output(0));
  };
  using Numbers = std::vector<double>;
  EXPECT_EQ(kept({indices({2}), doubles({1}, {0.5}), doubles({1}, {0})}),
            (Numbers{0, 0, 3, 0, 0, 0, 0, 1, 3, 0, 1, 0}));
  EXPECT_EQ(kept({indices({3}), doubles({1}, {0.5}), doubles({1}, {0.4})}),
            (Numbers{0, 0, 3, 0, 0, 0, 0, 1, 3, 0, 1, 0}));
  EXPECT_EQ(kept({}), Numbers());
}

TEST(DeformConv, OnnxExamples) {
  const Tensor x = doubles({1, 1, 3, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8}), w = doubles({1, 1, 2, 2}, {1, 1, 1, 1});
  std::vector<double> offsets(32, 0.0), weights(16, 1.0);
  offsets[0] = 0.5;
  offsets[21] = -0.1;
  weights[11] = 0.2;
  const Tensor offset = doubles({1, 8, 2, 2}, offsets);
  expect_near(forward(*made("DeformConv"), {x, w, offset}).output(0), {1, 1, 2, 2}, {9.5, 11.9, 20, 24});
  expect_near(forward(*made("DeformConv"), {x, w, offset, doubles({1}, {1}), doubles({1, 4, 2, 2}, weights)}).output(0),
              {1, 1, 2, 2}, {10.5, 12.9, 21, 19.4});
}

// A region of whole elements with one sample in each bin: the means of neighbours.
TEST(RoiAlign, MeansOfNeighbours) {
  const Tensor x = doubles({1, 1, 3, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8}), roi = doubles({1, 4}, {0, 0, 2, 2});
  const Attributes a{{"output_height", 2},
                     {"output_width", 2},
                     {"sampling_ratio", 1},
                     {"coordinate_transformation_mode", "output_half_pixel"}};
  expect_near(forward(*made("RoiAlign", a), {x, roi, indices({0})}).output(0), {1, 1, 2, 2}, {2, 3, 5, 6});
}

TEST(MaxRoiPool, LargestOfEachBin) {
  const Tensor x = doubles({1, 1, 3, 4}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  const Attributes a{{"pooled_shape", std::vector<int64_t>{1, 2}}};
  expect_near(forward(*made("MaxRoiPool", a), {x, doubles({1, 5}, {0, 0, 0, 3, 1})}).output(0), {1, 1, 1, 2}, {5, 7});
}

TEST(LpPool, NormsOfWindows) {
  const Tensor x = doubles({1, 1, 4}, {3, -4, 12, 5});
  const Attributes two{{"kernel_shape", std::vector<int64_t>{2}}};
  expect_near(forward(*made("LpPool", two), {x}).output(0), {1, 1, 3}, {5, std::sqrt(160.0), 13});
  const Attributes one{{"kernel_shape", std::vector<int64_t>{2}}, {"p", 1}, {"pads", std::vector<int64_t>{1, 0}}};
  expect_near(forward(*made("LpPool", one), {x}).output(0), {1, 1, 4}, {3, 7, 16, 17});
  expect_near(forward(*made("GlobalLpPool"), {doubles({1, 2, 2}, {3, 4, 5, -12})}).output(0), {1, 2, 1}, {5, 13});
}

TEST(Sampling, CasesHold) {
  for (const char* op : {"GridSample", "AffineGrid", "Col2Im", "MaxUnpool", "NonMaxSuppression", "DeformConv",
                         "RoiAlign", "MaxRoiPool", "LpPool", "GlobalLpPool"})
    expect_cases_hold(op);
}

}  // namespace
}  // namespace d5
