// SPDX-License-Identifier: Apache-2.0
// Expected values: the rules and tables in the text of ONNX Cast (opset 28).
#include "d5/core/convert.hpp"
#include "run_operator.hpp"

namespace d5 {
namespace {

using Numbers = std::vector<double>;
constexpr double inf = std::numeric_limits<double>::infinity();

// Through the operator, then stored in the type as a backend does.
Numbers cast(const Tensor& x, const char* to, bool saturate = true) {
  const auto op = made("Cast", {{"to", to}, {"saturate", int64_t{saturate}}});
  return list(forward(*op, {x}).output(0).cast(parse_dtype(to)));
}

TEST(Cast, FloatsAreRoundedOnce) {
  EXPECT_EQ(cast(doubles({3}, {1 + 0x1p-11, 1 + 0x1.8p-10, 1e6}), "f16"), (Numbers{1, 1 + 0x1p-9, inf}));
  EXPECT_EQ(cast(doubles({2}, {1 + 0x1p-8, -3.14159}), "bf16"), (Numbers{1, -3.140625}));
  EXPECT_EQ(cast(doubles({2}, {0.7, 5.1}), "f4e2m1"), (Numbers{0.5, 6}));
}

TEST(Cast, ToIntegersAndBool) {
  EXPECT_EQ(cast(doubles({4}, {-2.7, 2.7, 300, -300}), "i8"), (Numbers{-2, 2, 127, -128}));
  EXPECT_EQ(cast(doubles({4}, {0, -0.0, 0.3, std::nan("")}), "bool"), (Numbers{0, 0, 1, 1}));
  EXPECT_EQ(cast(Tensor::from<int16_t>({2}, {200, -129}), "i8"), (Numbers{-56, 127}));  // upper bits are lost
  EXPECT_EQ(cast(Tensor::from<int64_t>({2}, {-1, 1LL << 40}), "u32"), (Numbers{4294967295.0, 0}));
  EXPECT_EQ(cast(Tensor::from<int32_t>({3}, {9, 17, -9}), "i4"), (Numbers{-7, 1, 7}));
  EXPECT_EQ(cast(Tensor::from<int32_t>({2}, {2, 0}), "bool"), (Numbers{1, 0}));
  EXPECT_EQ(cast(doubles({2}, {1, 0}).cast(DType::boolean), "f32"), (Numbers{1, 0}));
  const Tensor big = Tensor::from<uint64_t>({1}, {UINT64_MAX});
  EXPECT_EQ(forward(*made("Cast", {{"to", "u64"}}), {big}).output(0).values<uint64_t>()[0], UINT64_MAX);
}

TEST(Cast, EightBitFloatsSaturateOrNot) {
  const Tensor x = doubles({6}, {464, 464.001, -1e9, inf, -inf, 0.3});
  EXPECT_EQ(cast(x, "f8e4m3fn"), (Numbers{448, 448, -448, 448, -448, 0.3125}));
  EXPECT_EQ(cast(x, "f8e4m3fnuz"), (Numbers{240, 240, -240, 240, -240, 0.3125}));
  EXPECT_EQ(cast(x, "f8e5m2"), (Numbers{448, 448, -57344, 57344, -57344, 0.3125}));
  const Numbers open = cast(x, "f8e4m3fn", false);
  EXPECT_EQ(open[0], 448);
  for (const size_t i : {1, 2, 3, 4}) EXPECT_TRUE(std::isnan(open[i])) << i;
  EXPECT_TRUE(std::isnan(cast(doubles({1}, {248}), "f8e4m3fnuz", false)[0]));
  EXPECT_EQ(cast(doubles({1}, {247.9}), "f8e4m3fnuz", false)[0], 240);
  EXPECT_EQ(infer_error("Cast", {{"to", "f8e5m2"}, {"saturate", 0}}, {{DType::f32, {1}}}),
            "[cast] saturate is 0: infinity cannot be stored in f8e5m2, whose conversion saturates");
}

TEST(Cast, OnnxNumbersAndErrors) {
  EXPECT_EQ(made("Cast", {{"to", 16}})->infer(std::vector<TensorSpec>{{DType::f32, {2}}})[0].dtype, DType::bf16);
  EXPECT_EQ(made("Cast", {{"to", 7}})->infer(std::vector<TensorSpec>{{DType::f32, {2}}})[0].dtype, DType::i64);
  EXPECT_EQ(message_of([] {
              made("Cast", {{"to", 14}});
            }),
            "[cast] to is 14; ONNX's number of a numeric element type is wanted");
  EXPECT_EQ(message_of([] { made("Cast"); }), "[cast] to is missing; an element type is wanted");
  EXPECT_EQ(infer_error("Cast", {{"to", "f32"}}, {{DType::string, {1}}}),
            "[cast] string to f32: numbers alone are converted");
}

TEST(Cast, GradientPassesBetweenFloats) {
  Context c = forward(*made("Cast", {{"to", "f16"}}), {doubles({2}, {1, 2})});
  backward(*made("Cast", {{"to", "f16"}}), c, doubles({2}, {3, 4}));
  expect_near(c.input_gradient(0), {2}, {3, 4});
  Context whole = forward(*made("Cast", {{"to", "i32"}}), {doubles({2}, {1, 2})});
  EXPECT_EQ(message_of([&] {
              backward(*made("Cast", {{"to", "i32"}}), whole, Tensor());
            }),
            "[operator] this operator has no gradient");
}

TEST(Identity, CopiesAnyType) {
  EXPECT_EQ(list(forward(*made("Identity"), {Tensor::from<int16_t>({2}, {-3, 4})}).output(0)), (Numbers{-3, 4}));
}

}  // namespace
}  // namespace d5
