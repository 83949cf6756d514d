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
  EXPECT_EQ(cast(x, "f8e5m2", false), (Numbers{448, 448, -inf, inf, -inf, 0.3125}));
}

TEST(Cast, OnnxNumbersAndErrors) {
  EXPECT_EQ(made("Cast", {{"to", 16}})->infer(std::vector<TensorSpec>{{DType::f32, {2}}})[0].dtype, DType::bf16);
  EXPECT_EQ(made("Cast", {{"to", 7}})->infer(std::vector<TensorSpec>{{DType::f32, {2}}})[0].dtype, DType::i64);
  EXPECT_EQ(message_of([] {
              made("Cast", {{"to", 14}});
            }),
            "[cast] to is 14; ONNX's number of an element type is wanted, complex ones excepted");
  EXPECT_EQ(message_of([] { made("Cast"); }), "[cast] to is missing; an element type is wanted");
}

// The table of Cast for f8e8m0, and ONNX's test_cast_e8m0_FLOAT_to_FLOAT8E8M0.
TEST(Cast, PowersOfTwo) {
  const auto cast_to = [](const Numbers& x, const char* mode, bool saturate) {
    const auto op = made("Cast", {{"to", 24}, {"round_mode", mode}, {"saturate", int64_t{saturate}}});
    return list(forward(*op, {doubles({static_cast<Index>(x.size())}, x)}).output(0).cast(DType::f8e8m0));
  };
  const float eighth = 0.124f;
  EXPECT_EQ(cast_to({0, eighth, 0.25, 1.1, 1.5, inf}, "up", true), (Numbers{0x1p-127, 0.125, 0.25, 2, 2, 0x1p127}));
  EXPECT_EQ(cast_to({0.124, 1.1, 1.5, 3.9}, "down", true), (Numbers{0.0625, 1, 1, 2}));
  EXPECT_EQ(cast_to({1.1, 1.5, 1.499, 2.9}, "nearest", true), (Numbers{1, 2, 1, 2}));
  for (const double value : cast_to({0, inf, 0x1.8p127, 0x1p-130, NAN}, "nearest", false))
    EXPECT_TRUE(std::isnan(value));
}

TEST(Cast, Strings) {
  const auto texts = [](const Tensor& x) {
    const Context c = forward(*made("Cast", {{"to", "string"}}), {x});
    const auto values = c.output(0).values<std::string>();
    return std::vector<std::string>(values.begin(), values.end());
  };
  const Tensor floats = Tensor::from<float>({5}, {0.9767611026763916f, 0.039187793f, 1e-5f, 100, -INFINITY});
  EXPECT_EQ(texts(floats), (std::vector<std::string>{"0.9767611", "0.039187793", "1e-05", "100.0", "-inf"}));
  EXPECT_EQ(texts(doubles({1}, {0.1}).cast(DType::f16)), std::vector<std::string>{"0.1"});
  EXPECT_EQ(texts(Tensor::from<int64_t>({1}, {-7})), std::vector<std::string>{"-7"});
  const Tensor strings = Tensor::from<std::string>({6}, {"0.47892547", "1E8", " +1e-5", "NaN", "+INF", "-inf"});
  const Numbers read = list(forward(*made("Cast", {{"to", "f64"}}), {strings}).output(0));
  EXPECT_EQ(read[0], 0.47892547);
  EXPECT_EQ(read[1], 1e8);
  EXPECT_EQ(read[2], 1e-5);
  EXPECT_TRUE(std::isnan(read[3]));
  EXPECT_EQ(read[4], inf);
  EXPECT_EQ(read[5], -inf);
  const Tensor whole = Tensor::from<std::string>({2}, {"9223372036854775807", "100.5"});
  EXPECT_EQ(forward(*made("Cast", {{"to", "i64"}}), {whole}).output(0).values<int64_t>()[0], INT64_MAX);
  EXPECT_EQ(forward(*made("Cast", {{"to", "i64"}}), {whole}).output(0).values<int64_t>()[1], 100);
  EXPECT_EQ(message_of([] {
              forward(*made("Cast", {{"to", "f32"}}), {Tensor::from<std::string>({1}, {"Hello"})});
            }),
            "[cast] 'Hello' is no number");
}

TEST(CastLike, TakesTheTypeOfTheSecondInput) {
  const Context c = forward(*made("CastLike"), {doubles({2}, {2.7, -9}), Tensor(DType::i4, {1})});
  EXPECT_EQ(list(c.output(0)), (Numbers{2, 7}));
  const auto like = [](DType type) { return forward(*made("CastLike"), {doubles({1}, {500}), Tensor(type, {1})}); };
  EXPECT_EQ(list(like(DType::f8e4m3fn).output(0)), Numbers{448});
  EXPECT_EQ(list(like(DType::f8e4m3fnuz).output(0)), Numbers{240});
}

TEST(BitCast, KeepsTheBits) {
  const auto seen_as = [](const Tensor& x, const char* to) {
    return list(forward(*made("BitCast", {{"to", to}}), {x}).output(0));
  };
  EXPECT_EQ(seen_as(doubles({2}, {1, -2}).cast(DType::f32), "i32"), (Numbers{0x3f800000, -0x40000000}));
  EXPECT_EQ(seen_as(doubles({2}, {1, -2}).cast(DType::bf16), "u16"), (Numbers{0x3f80, 0xc000}));
  EXPECT_EQ(seen_as(doubles({2}, {1, -2}).cast(DType::f16), "u16"), (Numbers{0x3c00, 0xc000}));
  EXPECT_EQ(seen_as(Tensor::from<int32_t>({1}, {0x40490fdb}), "f32")[0], 3.14159274101257324);
  EXPECT_EQ(infer_error("BitCast", {{"to", "i32"}}, {{DType::f16, {1}}}),
            "[bit_cast] f16 has 16 bits, i32 has 32; the same number is wanted");
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
