// SPDX-License-Identifier: Apache-2.0
// Expected numbers: onnx 1.23 (reference evaluator), and onnxruntime 1.31 where it has the mode; they agree to f32.
#include <algorithm>

#include "d5/core/rng.hpp"
#include "d5/operators/magnitude.hpp"
#include "run_operator.hpp"

namespace d5 {
namespace {

Tensor reals(const std::vector<double>& list) { return Tensor::from<double>({static_cast<Index>(list.size())}, list); }

Tensor sizes(const std::vector<int64_t>& list) {
  return Tensor::from<int64_t>({static_cast<Index>(list.size())}, list);
}

Tensor by_scales(const Attributes& a, const Tensor& x, const std::vector<double>& scales) {
  return forward(*made("Resize", a), {x, {}, reals(scales).cast(DType::f32).cast(DType::f64)}).output(0);
}

Attributes mode(const char* name) { return {{"mode", name}}; }

const Tensor square = doubles({2, 2}, {1, 2, 3, 4});
const Tensor line = doubles({4}, {1, 2, 3, 4});

TEST(Resize, Nearest) {
  expect_near(by_scales({}, square, {2, 3}), {4, 6},
              {1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 3, 3, 3, 4, 4, 4});
  const auto to_8 = [](const char* nearest) {
    return list(forward(*made("Resize", {{"nearest_mode", nearest}}), {line, {}, {}, sizes({8})}).output(0));
  };
  EXPECT_EQ(to_8("ceil"), (std::vector<double>{1, 2, 2, 3, 3, 4, 4, 4}));
  EXPECT_EQ(to_8("floor"), (std::vector<double>{1, 1, 1, 2, 2, 3, 3, 4}));
  // Half a pixel between two: 0, 0.5, 1, ... of asymmetric.
  const auto halves = [](const char* nearest) {
    return list(by_scales({{"nearest_mode", nearest}, {"coordinate_transformation_mode", "asymmetric"}}, line, {2}));
  };
  EXPECT_EQ(halves("round_prefer_floor"), (std::vector<double>{1, 1, 2, 2, 3, 3, 4, 4}));
  EXPECT_EQ(halves("round_prefer_ceil"), (std::vector<double>{1, 2, 2, 3, 3, 4, 4, 4}));
  const Tensor flags = Tensor::from<bool>({2}, {true, false});
  EXPECT_EQ(list(by_scales({}, flags, {2})), (std::vector<double>{1, 1, 0, 0}));
}

TEST(Resize, Linear) {
  expect_near(by_scales(mode("linear"), square, {2, 2}), {4, 4},
              {1, 1.25, 1.75, 2, 1.5, 1.75, 2.25, 2.5, 2.5, 2.75, 3.25, 3.5, 3, 3.25, 3.75, 4});
  const double third = 1. / 3;
  expect_near(by_scales({{"mode", "linear"}, {"coordinate_transformation_mode", "align_corners"}}, square, {2, 2}),
              {4, 4},
              {1, 1 + third, 2 - third, 2, 2 - third, 2, 2 + third, 3 - third, 2 + third, 3 - third, 3, 3 + third, 3,
               3 + third, 4 - third, 4});
  expect_near(by_scales(mode("linear"), doubles({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}), {0.6, 0.6}), {1, 2},
              {2 + 2 * third, 4 + third}, 1e-6);  // 0.6 is an f32
  expect_near(by_scales({{"mode", "linear"}, {"antialias", 1}}, line, {0.6}), {2}, {1.375, 3}, 1e-6);
  expect_near(by_scales({{"mode", "linear"}, {"coordinate_transformation_mode", "half_pixel_symmetric"}}, line, {1.2}),
              {4}, {1.25, 2.08333333333, 2.91666666667, 3.75}, 1e-6);
  EXPECT_EQ(
      list(by_scales({{"mode", "linear"}, {"coordinate_transformation_mode", "pytorch_half_pixel"}}, line, {0.25})),
      std::vector<double>{1});  // one pixel stands for the first
}

TEST(Resize, Cubic) {
  expect_near(by_scales(mode("cubic"), line, {2}), {8},
              {0.89453125, 1.19140625, 1.66796875, 2.296875, 2.703125, 3.33203125, 3.80859375, 4.10546875});
  expect_near(by_scales({{"mode", "cubic"}, {"exclude_outside", 1}, {"cubic_coeff_a", -0.5}}, line, {2}), {8},
              {0.911764681339, 1.16788315773, 1.70992362499, 2.25, 2.75, 3.2900762558, 3.83211684227, 4.08823537827},
              1e-6);
}

TEST(Resize, CropAndResize) {
  const Tensor x = doubles({4, 4}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16});
  const Attributes a{
      {"mode", "linear"}, {"coordinate_transformation_mode", "tf_crop_and_resize"}, {"extrapolation_value", 10.0}};
  expect_near(forward(*made("Resize", a), {x, reals({0.4, 0.6, 0.6, 0.8}), {}, sizes({3, 3})}).output(0), {3, 3},
              {7.6, 7.9, 8.2, 8.8, 9.1, 9.4, 10, 10.3, 10.6});
  Context c = forward(*made("Resize", a), {x, reals({0.4, 0.6, 1.2, 1.7}), {}, sizes({3, 3})});
  expect_near(c.output(0), {3, 3}, {7.6, 10, 10, 12.4, 10, 10, 10, 10, 10});
  backward(*made("Resize", a), c, doubles({3, 3}, {1, 2, 3, 0, 5, 6, 7, 8, 9}));
  const auto dx = list(c.input_gradient(0));  // only the first result reads X: row 1.2, column 1.8
  EXPECT_NEAR(dx[5], 0.8 * 0.2, 1e-12);
  EXPECT_NEAR(dx[10], 0.2 * 0.8, 1e-12);
  EXPECT_EQ(dx[0], 0);
}

TEST(Resize, Sizes) {
  const auto shape = [](const Attributes& a, const std::vector<int64_t>& to) {
    return to_string(forward(*made("Resize", a), {pattern({4, 6}, 1), {}, {}, sizes(to)}).output(0).shape());
  };
  EXPECT_EQ(shape({}, {7, 8}), "7x8");
  EXPECT_EQ(shape({{"keep_aspect_ratio_policy", "not_larger"}}, {7, 8}), "5x8");
  EXPECT_EQ(shape({{"keep_aspect_ratio_policy", "not_smaller"}}, {7, 8}), "7x11");
  EXPECT_EQ(shape({{"axes", std::vector<int64_t>{-1}}}, {3}), "4x3");
  EXPECT_EQ(to_string(by_scales({}, Tensor(DType::f64, {10}), {0.7}).shape()), "7");  // in f32 it is 7, not 6.9999998
}

TEST(Resize, BadInputsAreNamed) {
  const TensorSpec x{DType::f32, {4, 6}}, none = TensorSpec::absent();
  EXPECT_EQ(infer_error("Resize", {}, {x}), "[resize] exactly one of the inputs scales and sizes is wanted");
  EXPECT_EQ(infer_error("Resize", {}, {x, none, none, known_spec({3})}),
            "[resize] 1 scales or sizes are given; 2 are wanted, one for each axis");
  EXPECT_EQ(infer_error("Resize", {}, {x, none, {DType::f32, {2}}}),
            "[resize] the value of scales must be known before the run; it is not");
  EXPECT_EQ(infer_error("Resize", {}, {x, none, known_spec(reals({1, -2}))}),
            "[resize] the scale of axis 1 is -2; a positive number is wanted");
  EXPECT_EQ(infer_error("Resize", mode("linear"), {{DType::i32, {4}}, none, none, known_spec({3})}),
            "[resize] X is of type i32; ONNX does not say how mode linear rounds, so a float type is wanted");
  EXPECT_EQ(infer_error("Resize", mode("bilinear"), {}).substr(0, 32), "[resize] unknown mode 'bilinear'");
  EXPECT_EQ(infer_error("Resize", {{"antialias", 1}}, {}), "[resize] antialias is not defined for mode nearest");
}

// Linear interpolation with coordinates and weights in f32, as kernels do it, from `sizes`.
std::vector<float> in_f32(const Tensor& input, Index rows, Index columns, bool align_corners) {
  const auto x = list(input);
  const Index height = input.shape()[0], width = input.shape()[1];
  const auto coordinate = [&](Index o, Index size, Index to) {
    const float scale = align_corners ? static_cast<float>(size - 1) / static_cast<float>(to - 1)
                                      : static_cast<float>(size) / static_cast<float>(to);
    return align_corners ? static_cast<float>(o) * scale : (static_cast<float>(o) + 0.5f) * scale - 0.5f;
  };
  std::vector<float> y;
  for (Index r = 0; r < rows; ++r)
    for (Index c = 0; c < columns; ++c) {
      const float v = std::max(0.0f, coordinate(r, height, rows)), h = std::max(0.0f, coordinate(c, width, columns));
      const Index top = static_cast<Index>(v), left = static_cast<Index>(h);
      const Index bottom = std::min(top + 1, height - 1), right = std::min(left + 1, width - 1);
      const float p = v - static_cast<float>(top), q = h - static_cast<float>(left);
      const auto at = [&](Index i, Index j) { return static_cast<float>(x[i * width + j]); };
      y.push_back((1 - p) * ((1 - q) * at(top, left) + q * at(top, right)) +
                  p * ((1 - q) * at(bottom, left) + q * at(bottom, right)));
    }
  return y;
}

TEST(RoundingBounds, ResizeLinear) {
  const OperatorEntry& entry = registered<operators>("Resize");
  for (const char* to : {"37x53", "9x200", "13x7"})
    for (const char* coordinates : {"half_pixel", "align_corners"}) {
      SCOPED_TRACE(fmt::format("{} {}", to, coordinates));
      const OperatorCase one = entry.describe(
          complete_values(
              "Resize", entry,
              {{"shape", "29x31"}, {"sizes", to}, {"interpolation", "linear"}, {"coordinates", coordinates}}),
          DType::f32);
      const auto op = entry.make(one.attributes);
      Context c = separated_context(*op, one, 3);
      Tensor x(DType::f32, c.inputs[0].shape());
      fill_uniform(x, Rng(3), -1, 1);
      c.inputs[0] = x.cast(DType::f64);
      op->forward(c);
      const auto wanted = list(c.output(0)), scale = list(error_scale(*op, c, Pass::forward, 0));
      const auto worst = [&](const std::vector<float>& got) {
        double share = 0;
        for (size_t i = 0; i < wanted.size(); ++i)
          share = std::max(share, std::abs(got[i] - wanted[i]) / (0x1p-24 * (scale[i] + std::abs(wanted[i]))));
        return share;
      };
      const bool corners = coordinates == std::string("align_corners");
      const Shape& y = c.output(0).shape();
      EXPECT_LE(worst(in_f32(c.input(0), y[0], y[1], corners)), 1);
      EXPECT_GT(worst(in_f32(c.input(0), y[0], y[1], !corners)), 100);
    }
}

TEST(Resize, CasesHold) { expect_cases_hold("Resize"); }

}  // namespace
}  // namespace d5
