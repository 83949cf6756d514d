// SPDX-License-Identifier: Apache-2.0
// Expected numbers: by hand, or the reference evaluator of onnx 1.23.
#include "run_operator.hpp"

namespace d5 {
namespace {

Tensor out(const std::string& op, const Tensor& a, const Tensor& b, const Attributes& attributes = {}) {
  return forward(*made(op, attributes), {a, b}).output(0);
}
template <class T>
std::vector<double> integers(const std::string& op, const std::vector<T>& a, const std::vector<T>& b,
                             const Attributes& attributes = {}) {
  return list(out(op, Tensor::from<T>({static_cast<Index>(a.size())}, a),
                  Tensor::from<T>({static_cast<Index>(b.size())}, b), attributes));
}
using Numbers = std::vector<double>;
constexpr double inf = std::numeric_limits<double>::infinity();

TEST(Binary, SubMulDivBroadcastAndTheirGradients) {
  const Tensor a = doubles({2, 1}, {6, -3}), b = doubles({3}, {1, 2, -4}), dy = doubles({2, 3}, {1, 2, 3, 4, 5, 6});
  Context sub = forward(*made("Sub"), {a, b});
  expect_near(sub.output(0), {2, 3}, {5, 4, 10, -4, -5, 1});
  backward(*made("Sub"), sub, dy);
  expect_near(sub.input_gradient(0), {2, 1}, {6, 15});
  expect_near(sub.input_gradient(1), {3}, {-5, -7, -9});
  Context mul = forward(*made("Mul"), {a, b});
  expect_near(mul.output(0), {2, 3}, {6, 12, -24, -3, -6, 12});
  backward(*made("Mul"), mul, dy);
  expect_near(mul.input_gradient(0), {2, 1}, {1 + 4 - 12, 4 + 10 - 24});
  expect_near(mul.input_gradient(1), {3}, {6 - 12, 12 - 15, 18 - 18});
  Context div = forward(*made("Div"), {a, b});
  expect_near(div.output(0), {2, 3}, {6, 3, -1.5, -3, -1.5, 0.75});
  backward(*made("Div"), div, dy);
  expect_near(div.input_gradient(0), {2, 1}, {1 + 1 - 0.75, 4 + 2.5 - 1.5});
  expect_near(div.input_gradient(1), {3}, {-6 + 12, -3 + 3.75, -1.125 + 1.125});
}

TEST(Binary, OnlyWantedGradientsAreWritten) {
  Context c = forward(*made("Mul"), {doubles({2}, {1, 2}), doubles({2}, {3, 4})});
  c.output_gradients = {doubles({2}, {1, 1})};
  c.input_gradients = {Tensor(), doubles({2}, {7, 7})};  // written, not added to
  made("Mul")->backward(c);
  expect_near(c.input_gradient(1), {2}, {1, 2});
  EXPECT_FALSE(c.input_gradient(0).present());
}

TEST(Binary, IntegersNeverTrap) {
  EXPECT_EQ(integers<int8_t>("Div", {-7, 7, -128, 5}, {2, -2, -1, 0}), (Numbers{-3, -3, -128, 0}));
  EXPECT_EQ(integers<int64_t>("Mod", {INT64_MIN, 5}, {-1, 0}), (Numbers{0, 0}));
  EXPECT_EQ(integers<uint8_t>("Sub", {3}, {5}), (Numbers{254}));
  EXPECT_EQ(integers<int8_t>("Mul", {100}, {3}), (Numbers{44}));
  EXPECT_EQ(integers<uint8_t>("Mod", {7}, {255}), (Numbers{7}));
  EXPECT_EQ(integers<int32_t>("Pow", {-3, 2, 0, 7, -1, 1, 5, 2}, {3, 31, 0, 0, -3, -9, -1, 64}),
            (Numbers{-27, -2147483648.0, 1, 1, -1, 1, 0, 0}));
}

TEST(Binary, ModOfBothKinds) {  // ONNX's examples
  EXPECT_EQ(integers<int64_t>("Mod", {-4, 7, 5, 4, -7, 8}, {2, -3, 8, -2, 3, 5}), (Numbers{0, -2, 5, 0, 2, 3}));
  EXPECT_EQ(integers<int64_t>("Mod", {-4, 7, 5, 4, -7, 8}, {2, -3, 8, -2, 3, 5}, {{"fmod", 1}}),
            (Numbers{0, 1, 5, 0, -1, 3}));
  const Tensor a = doubles({6}, {-4.3, 7.2, 5, 4.3, -7.2, 8}), b = doubles({6}, {2.1, -3.4, 8, -2.1, 3.4, 5});
  expect_near(out("Mod", a, b, {{"fmod", 1}}), {6}, {-0.1, 0.4, 5, 0.1, -0.4, 3});
  Context c = forward(*made("Mod"), {a, b});
  expect_near(c.output(0), {6}, {2, -3, 5, -2, 3, 3});
  backward(*made("Mod"), c, doubles({6}, {1, 1, 1, 1, 1, 1}));
  expect_near(c.input_gradient(1), {6}, {3, 3, 0, 3, 3, -1});
  // The special cases of ONNX's text.
  const auto one = [&](double x, double y) { return list(out("Mod", doubles({1}, {x}), doubles({1}, {y})))[0]; };
  EXPECT_TRUE(std::signbit(one(0, -3)) && !std::signbit(one(-0.0, 3)));
  EXPECT_TRUE(std::isnan(one(inf, 3)) && std::isnan(one(3, 0)));
  EXPECT_EQ(one(3, inf), 3);
  EXPECT_EQ(one(-3, inf), inf);
}

TEST(Binary, PowAndItsTypes) {
  Context c = forward(*made("Pow"), {doubles({2, 3}, {1.75, 3, 1, 2.25, 3.5, 1.5}), doubles({3}, {1, -0.5, 1.25})});
  expect_near(c.output(0), {2, 3}, {1.75, 0.57735026919, 1, 2.25, 0.534522483825, 1.66002287955}, 1e-10);
  const auto mixed = [](const Tensor& a, const Tensor& b) { return forward(*made("Pow"), {a, b}).output(0); };
  expect_near(mixed(doubles({2}, {2.5, -2}), Tensor::from<int64_t>({}, {3})), {2}, {15.625, -8});
  expect_near(mixed(Tensor::from<int32_t>({2}, {2, 9}), doubles({2}, {-1, 0.5})), {2}, {0, 3});
  EXPECT_EQ(mixed(Tensor::from<int64_t>({1}, {3}), Tensor::from<uint8_t>({1}, {39})).values<int64_t>()[0],
            4052555153018976267);
  // A negative base has no logarithm; 0^0 is 1 with slopes of 0.
  Context zero = forward(*made("Pow"), {doubles({1}, {0}), doubles({1}, {0})});
  backward(*made("Pow"), zero, doubles({1}, {1}));
  EXPECT_EQ(list(zero.output(0))[0], 1);
  EXPECT_EQ(list(zero.input_gradient(0))[0], 0);
  EXPECT_EQ(list(zero.input_gradient(1))[0], 0);
}

TEST(Binary, Bits) {
  EXPECT_EQ(integers<uint8_t>("BitwiseAnd", {12, 255}, {10, 15}), (Numbers{8, 15}));
  EXPECT_EQ(integers<int32_t>("BitwiseOr", {12, -8}, {10, 1}), (Numbers{14, -7}));
  EXPECT_EQ(integers<int64_t>("BitwiseXor", {12, -1}, {10, 1}), (Numbers{6, -2}));
}

TEST(Comparison, EveryRelationAndNaN) {
  const Tensor a = doubles({4}, {1, 2, 3, std::nan("")}), b = doubles({}, {2});
  EXPECT_EQ(list(out("Equal", a, b)), (Numbers{0, 1, 0, 0}));
  EXPECT_EQ(list(out("Greater", a, b)), (Numbers{0, 0, 1, 0}));
  EXPECT_EQ(list(out("GreaterOrEqual", a, b)), (Numbers{0, 1, 1, 0}));
  EXPECT_EQ(list(out("Less", a, b)), (Numbers{1, 0, 0, 0}));
  EXPECT_EQ(list(out("LessOrEqual", a, b)), (Numbers{1, 1, 0, 0}));
  EXPECT_EQ(out("Less", a, b).dtype(), DType::boolean);
  EXPECT_EQ(integers<int64_t>("Equal", {9007199254740993}, {9007199254740992}), (Numbers{0}));
  const Tensor p = doubles({2, 1}, {0, 1}).cast(DType::boolean), q = doubles({2}, {0, 1}).cast(DType::boolean);
  EXPECT_EQ(list(out("And", p, q)), (Numbers{0, 0, 0, 1}));
  EXPECT_EQ(list(out("Or", p, q)), (Numbers{0, 1, 1, 1}));
  EXPECT_EQ(list(out("Xor", p, q)), (Numbers{0, 1, 1, 0}));
}

TEST(Binary, BadInputsAreNamed) {
  EXPECT_EQ(infer_error("Mul", {}, {{DType::f32, {2, 3}}, {DType::f32, {2}}}),
            "[mul] shapes 2x3 and 2 do not broadcast: sizes 3 and 2 differ and neither is 1");
  EXPECT_EQ(infer_error("Div", {}, {{DType::f32, {2}}, {DType::f64, {2}}}),
            "[div] inputs are of types f32 and f64; one type is wanted");
  EXPECT_EQ(infer_error("And", {}, {{DType::f32, {2}}, {DType::f32, {2}}}),
            "[and] element type f32 is not defined by ONNX; legal: bool");
  EXPECT_EQ(infer_error("BitwiseAnd", {}, {{DType::f32, {2}}, {DType::f32, {2}}}).substr(0, 30),
            "[bitwise_and] element type f32");
}

TEST(Variadic, BroadcastsAndSharesGradients) {
  const std::vector<Tensor> in{pattern({2, 1, 3}, 1), pattern({2, 1}, 2), pattern({3}, 4)};
  Context sum = forward(*made("Sum"), in);
  expect_near(sum.output(0), {2, 2, 3}, {1, 1.75, -0.75, -0.5, 0.25, -2.25, 1.5, 2.25, -0.25, 0, 0.75, -1.75});
  backward(*made("Sum"), sum, doubles({2, 2, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
  expect_near(sum.input_gradient(2), {3}, {22, 26, 30});
  Context mean = forward(*made("Mean"), in);
  expect_near(mean.output(0), {2, 2, 3},
              {1.0 / 3, 1.75 / 3, -0.25, -0.5 / 3, 0.25 / 3, -0.75, 0.5, 0.75, -0.25 / 3, 0, 0.25, -1.75 / 3});
  backward(*made("Mean"), mean, doubles({2, 2, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
  expect_near(mean.input_gradient(1), {2, 1}, {10, 16});
  Context max = forward(*made("Max"), in);
  expect_near(max.output(0), {2, 2, 3}, {1, 1, 1, 0.25, 1, -0.5, 1, 1.5, 1, 0.25, 1.5, -0.5});
  expect_near(forward(*made("Min"), in).output(0), {2, 2, 3},
              {-0.25, -0.25, -1, -0.5, -0.5, -1, 0.25, -0.25, -0.75, -0.5, -0.5, -0.75});
}

TEST(Variadic, TheFirstOfEqualsWinsAndNaNStays) {
  Context c = forward(*made("Max"), {doubles({3}, {1, 5, 2}), doubles({3}, {1, 4, 3}), doubles({}, {1})});
  backward(*made("Max"), c, doubles({3}, {10, 20, 30}));
  expect_near(c.input_gradient(0), {3}, {10, 20, 0});
  expect_near(c.input_gradient(1), {3}, {0, 0, 30});
  expect_near(c.input_gradient(2), {}, {0});
  for (const char* op : {"Max", "Min"})
    for (const bool first : {true, false}) {
      const Tensor nan = doubles({1}, {std::nan("")}), one = doubles({1}, {1});
      EXPECT_TRUE(std::isnan(list(out(op, first ? nan : one, first ? one : nan))[0])) << op;
    }
  EXPECT_EQ(integers<uint64_t>("Max", {UINT64_MAX, 3}, {UINT64_MAX - 1, 4})[1], 4);
  EXPECT_EQ(infer_error("Sum", {}, {}), "[sum] input 0 is missing; 1 to 1 inputs are wanted");
}

TEST(Where, ChoosesAndRoutesGradients) {
  const Tensor condition = doubles({2, 2}, {1, 0, 1, 1}).cast(DType::boolean);  // ONNX's example
  Context c = forward(*made("Where"), {condition, doubles({2, 2}, {1, 2, 3, 4}), doubles({2, 2}, {9, 8, 7, 6})});
  expect_near(c.output(0), {2, 2}, {1, 8, 3, 4});
  Context d = forward(*made("Where"), {condition, doubles({}, {5}), doubles({2}, {7, 6})});
  expect_near(d.output(0), {2, 2}, {5, 6, 5, 5});
  d.output_gradients = {doubles({2, 2}, {1, 2, 3, 4})};
  d.input_gradients = {Tensor(), Tensor(DType::f64, {}), Tensor(DType::f64, {2})};
  made("Where")->backward(d);
  expect_near(d.input_gradient(1), {}, {8});
  expect_near(d.input_gradient(2), {2}, {0, 2});
  EXPECT_EQ(infer_error("Where", {}, {{DType::f32, {2}}, {DType::f32, {2}}, {DType::f32, {2}}}),
            "[where] element type f32 is not defined by ONNX; legal: bool");
}

TEST(Clip, LimitsMayBeAbsentOrCrossed) {
  const Tensor x = doubles({5}, {-2, -1, 0.5, 2, std::nan("")}), low = doubles({}, {-1}), high = doubles({}, {1});
  const auto clip = [&](std::vector<Tensor> in) { return list(forward(*made("Clip"), std::move(in)).output(0)); };
  EXPECT_EQ(clip({x.slice(0, 4), low, high}), (Numbers{-1, -1, 0.5, 1}));
  EXPECT_EQ(clip({x.slice(0, 4), Tensor(), high}), (Numbers{-2, -1, 0.5, 1}));
  EXPECT_EQ(clip({x.slice(0, 4), low}), (Numbers{-1, -1, 0.5, 2}));
  EXPECT_EQ(clip({x.slice(0, 4), high, low}), (Numbers{-1, -1, -1, -1}));
  EXPECT_TRUE(std::isnan(clip({x, low, high})[4]));
  Context c = forward(*made("Clip"), {x, low, high});
  backward(*made("Clip"), c, doubles({5}, {1, 2, 3, 4, 5}));
  expect_near(c.input_gradient(0), {5}, {0, 2, 3, 0, 0});
  EXPECT_EQ(clip({x.slice(0, 4), low.reshaped({1}), high.reshaped({1})}), (Numbers{-1, -1, 0.5, 1}));
  EXPECT_EQ(infer_error("Clip", {}, {{DType::f32, {2}}, {DType::f32, {2}}}),
            "[clip] min is 2, of rank 1; rank 0 is wanted");
}

TEST(PRelu, SlopeBroadcastsToX) {
  Context c = forward(*made("PRelu"), {doubles({2, 2}, {-2, 3, -4, 0}), doubles({2}, {0.5, -1})});
  expect_near(c.output(0), {2, 2}, {-1, 3, -2, 0});
  backward(*made("PRelu"), c, doubles({2, 2}, {1, 2, 3, 4}));
  expect_near(c.input_gradient(0), {2, 2}, {0.5, 2, 1.5, -4});
  expect_near(c.input_gradient(1), {2}, {-2 - 12, 0});
  EXPECT_EQ(infer_error("PRelu", {}, {{DType::f32, {2}}, {DType::f32, {3, 2}}}),
            "[prelu] slope is 3x2 and does not broadcast to 2");
}

}  // namespace
}  // namespace d5
