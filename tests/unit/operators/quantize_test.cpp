// SPDX-License-Identifier: Apache-2.0
// Expected values: ONNX's node tests quantizelinear*, dequantizelinear*, dynamicquantizelinear, qlinearmatmul_2D_uint8,
// matmulinteger and convinteger_with_padding (1.23).
#include "run_operator.hpp"

namespace d5 {
namespace {

using Numbers = std::vector<double>;

Tensor floats(Shape shape, const std::vector<float>& values) { return Tensor::from<float>(std::move(shape), values); }
Tensor bytes(Shape shape, const std::vector<uint8_t>& values) {
  return Tensor::from<uint8_t>(std::move(shape), values);
}

// As it is stored in its own type.
Numbers stored(const std::string& op, const Attributes& a, const std::vector<Tensor>& in) {
  const auto made_op = made(op, a);
  const DType type = made_op->infer(known_specs(in))[0].dtype;
  const Tensor y = forward(*made_op, in).output(0);
  return list(y.dtype() == type ? y : y.cast(type));
}

TEST(QuantizeLinear, WholeTensorAxisAndBlock) {
  EXPECT_EQ(
      stored("QuantizeLinear", {}, {floats({6}, {0, 2, 3, 1000, -254, -1000}), floats({}, {2}), bytes({}, {128})}),
      (Numbers{128, 129, 130, 255, 1, 0}));
  const Tensor x =
      floats({1, 3, 3, 2}, {-162, 10, -100, 232, -20, -50, -76, 0, 0, 252, 32, -44, 245, -485, -960, -270, -375, -470});
  EXPECT_EQ(stored("QuantizeLinear", {}, {x, floats({3}, {2, 4, 5}), bytes({3}, {84, 24, 196})}),
            (Numbers{3, 89, 34, 200, 74, 59, 5, 24, 24, 87, 32, 13, 245, 99, 4, 142, 121, 102}));
  const Tensor rows = floats({3, 4}, {6, 12, 50, 5, 1, 8, 4, 5, 0, 20, 10, 4});
  EXPECT_EQ(stored("QuantizeLinear", {{"axis", 1}, {"block_size", 2}},
                   {rows, floats({3, 2}, {1.5, 2.5, 3.0, 4.9f, 5.1f, 6.9f}), bytes({3, 2}, {0, 1, 1, 0, 2, 3})}),
            (Numbers{4, 8, 21, 3, 1, 4, 1, 1, 2, 6, 4, 4}));
}

TEST(QuantizeLinear, NarrowTypes) {
  const Tensor zero = doubles({1}, {0}).cast(DType::f8e4m3fn);
  EXPECT_EQ(stored("QuantizeLinear", {}, {floats({5}, {0, 1, 2, 100000, 200}), floats({}, {2}), zero}),
            (Numbers{0, 0.5, 1, 448, 96}));
  const Tensor x = floats({3, 4}, {0, 2.5, 4.8f, 8.6f, -30, -20, 6, 9, 12, 15, 16, 40}), scale = floats({3}, {2, 3, 4});
  const Tensor ones = Tensor::from<int8_t>({3}, {1, 1, 1});
  EXPECT_EQ(stored("QuantizeLinear", {{"axis", 0}}, {x, scale, ones.cast(DType::i4)}),
            (Numbers{1, 2, 3, 5, -8, -6, 3, 4, 4, 5, 5, 7}));
  EXPECT_EQ(stored("QuantizeLinear", {{"axis", 0}, {"output_dtype", 26}}, {x, scale}),
            (Numbers{0, 1, 1, 1, -2, -2, 1, 1, 1, 1, 1, 1}));
}

// 0.5 / 0.1 in f32 is 5, and 3.5 a tie: to even. In f16 the quotient 2050 / 1 is a tie of its own grid.
TEST(QuantizeLinear, DividesInThePrecisionOfTheScale) {
  EXPECT_EQ(stored("QuantizeLinear", {}, {floats({3}, {0.35f, 0.25f, 0.45f}), floats({}, {0.1f}), bytes({}, {0})}),
            (Numbers{4, 2, 4}));
  const Tensor x = floats({1}, {2049});
  EXPECT_EQ(stored("QuantizeLinear", {{"output_dtype", 4}}, {x, floats({}, {1})}), Numbers{2049});
  EXPECT_EQ(stored("QuantizeLinear", {{"output_dtype", 4}, {"precision", 10}}, {x, floats({}, {1})}), Numbers{2048});
}

TEST(QuantizeLinear, Errors) {
  const TensorSpec x{DType::f32, {2, 3}}, scale{DType::f32, {4}};
  EXPECT_EQ(infer_error("QuantizeLinear", {}, {x, scale}),
            "[quantize_linear] the scale is 4; one value, or 3 for axis 1 of 2x3, is wanted (or block_size)");
  EXPECT_EQ(infer_error("QuantizeLinear", {{"output_dtype", 3}}, {x, {DType::f32, {}}, {DType::u8, {}}}),
            "[quantize_linear] output_dtype is i8, the zero point u8; one type is wanted");
}

TEST(DequantizeLinear, WholeTensorAxisAndBlock) {
  const Tensor x = bytes({1, 3, 3, 2}, {3, 89, 34, 200, 74, 59, 5, 24, 24, 87, 32, 13, 245, 99, 4, 142, 121, 102});
  expect_near(forward(*made("DequantizeLinear"), {x, floats({3}, {2, 4, 5}), bytes({3}, {84, 24, 196})}).output(0),
              {1, 3, 3, 2},
              {-162, 10, -100, 232, -20, -50, -76, 0, 0, 252, 32, -44, 245, -485, -960, -270, -375, -470});
  const Tensor blocks = bytes(
      {1, 4, 3, 2}, {3, 89, 34, 200, 74, 59, 5, 24, 24, 87, 32, 13, 5, 12, 12, 33, 65, 42, 245, 99, 4, 142, 121, 102});
  expect_near(forward(*made("DequantizeLinear", {{"axis", 1}, {"block_size", 2}}),
                      {blocks, floats({1, 2, 3, 2}, {3, 2, 4, 1, 2, 2, 5, 2, 4, 3, 5, 2}),
                       bytes({1, 2, 3, 2}, {1, 0, 0, 1, 2, 20, 3, 2, 4, 3, 15, 2})})
                  .output(0),
              {1, 4, 3, 2}, {6,  178, 136, 199, 144, 78, 12,   48,  96, 86,  60,  -14,
                             10, 20,  32,  90,  250, 80, 1210, 194, 0,  417, 530, 200});
  const Tensor e5m2 = doubles({5}, {0, 0.5, 1, 49152, -96}).cast(DType::f8e5m2);
  expect_near(forward(*made("DequantizeLinear"), {e5m2, floats({}, {2})}).output(0), {5}, {0, 1, 2, 98304, -192});
}

TEST(DynamicQuantizeLinear, ScaleAndZeroPoint) {
  const Context c = forward(*made("DynamicQuantizeLinear"), {floats({6}, {0, 2, -3, -2.5, 1.34f, 0.5})});
  EXPECT_EQ(list(c.output(0)), (Numbers{153, 255, 0, 26, 221, 179}));
  EXPECT_EQ(list(c.output(1)), Numbers{0.0196078438311815261840820312500});
  EXPECT_EQ(list(c.output(2)), Numbers{153});
}

TEST(QLinearMatMul, Rounded) {
  EXPECT_EQ(stored("QLinearMatMul", {},
                   {bytes({2, 4}, {208, 236, 0, 238, 3, 214, 255, 29}), floats({1}, {0.0066f}), bytes({1}, {113}),
                    bytes({4, 3}, {152, 51, 244, 60, 26, 255, 0, 127, 246, 127, 254, 247}), floats({1}, {0.00705f}),
                    bytes({1}, {114}), floats({1}, {0.0107f}), bytes({1}, {118})}),
            (Numbers{168, 115, 255, 1, 66, 151}));
}

TEST(MatMulInteger, TakesOffZeroPoints) {
  const Tensor a = bytes({4, 3}, {11, 7, 3, 10, 6, 2, 9, 5, 1, 8, 4, 0}), b = bytes({3, 2}, {1, 4, 2, 5, 3, 6});
  EXPECT_EQ(stored("MatMulInteger", {}, {a, b, bytes({1}, {12}), bytes({1}, {0})}),
            (Numbers{-38, -83, -44, -98, -50, -113, -56, -128}));
  // One zero point for each row of A, and each column of B: (a - r)(b - c) by hand for one element of each.
  const Numbers y = stored("MatMulInteger", {}, {a, b, bytes({4}, {12, 11, 10, 9}), bytes({2}, {1, 2})});
  EXPECT_EQ(y[0], -1 * 0 + -5 * 1 + -9 * 2);
  EXPECT_EQ(y[7], -1 * 2 + -5 * 3 + -9 * 4);
}

TEST(ConvInteger, ZeroPointsOfOutputChannels) {
  EXPECT_EQ(stored("ConvInteger", {{"pads", std::vector<int64_t>{1, 1, 1, 1}}},
                   {bytes({1, 1, 3, 3}, {2, 3, 4, 5, 6, 7, 8, 9, 10}), bytes({2, 1, 2, 2}, {1, 1, 1, 1, 1, 1, 1, 1}),
                    bytes({}, {1}), bytes({2}, {0, 1})}),
            (Numbers{1, 3, 5, 3, 5, 12, 16, 9, 11, 24, 28, 15, 7, 15, 17, 9,
                     0, 0, 0, 0, 0, 0,  0,  0, 0,  0,  0,  0,  0, 0,  0,  0}));
}

// A 1x1 filter: y = saturate(round((x - zx)(w - zw) s) + zy), by hand, with a scale and a bias for each channel.
TEST(QLinearConv, ScalesOfOutputChannelsAndBias) {
  const Tensor bias = Tensor::from<int32_t>({2}, {10, -10});
  EXPECT_EQ(stored("QLinearConv", {},
                   {bytes({1, 1, 1, 2}, {5, 9}), floats({}, {0.5}), bytes({}, {1}), bytes({2, 1, 1, 1}, {3, 7}),
                    floats({2}, {0.25, 0.5}), bytes({2}, {1, 2}), floats({}, {0.5}), bytes({}, {100}), bias}),
            (Numbers{104, 106, 105, 115}));
}

TEST(Quantized, CasesHold) {
  for (const char* op : {"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul",
                         "MatMulInteger", "ConvInteger"})
    expect_cases_hold(op);
}

}  // namespace
}  // namespace d5
