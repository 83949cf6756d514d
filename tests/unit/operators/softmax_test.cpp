// SPDX-License-Identifier: Apache-2.0
// Expected outputs: the ONNX documentation, and onnx 1.23 and onnxruntime 1.31, which agree. Gradients: complex steps
// in numpy.
#include "d5/operators/lines.hpp"
#include "run_operator.hpp"

namespace d5 {
namespace {

TEST(Softmax, OnnxDocumentation) {
  expect_near(forward(*made("Softmax"), {doubles({1, 3}, {-1, 0, 1})}).output(0), {1, 3},
              {0.0900305731704, 0.244728471055, 0.665240955775}, 1e-11);
  const std::vector<double> row{0.0320586032801, 0.087144318742, 0.23688281809, 0.643914259888};
  const Context c = forward(*made("Softmax"), {doubles({2, 4}, {0, 1, 2, 3, 10000, 10001, 10002, 10003})});
  expect_near(c.output(0).slice(0, 1), {1, 4}, row, 1e-11);
  expect_near(c.output(0).slice(1, 1), {1, 4}, row, 1e-11);
}

TEST(Softmax, EveryAxis) {
  const auto run = [](int64_t axis) {
    return forward(*made("Softmax", {{"axis", axis}}), {pattern({2, 3, 2}, 2)}).output(0);
  };
  const double a = 0.924141819979, b = 0.320821300825, c = 0.25427521259, d = 0.3264958358, e = 0.41922895161;
  const double f = 0.817574476194, g = 0.148047198032;
  expect_near(run(0), {2, 3, 2}, {a, b, a, b, a, b, 1 - a, 1 - b, 1 - a, 1 - b, 1 - a, 1 - b}, 1e-11);
  expect_near(run(1), {2, 3, 2}, {c, c, d, d, e, e, c, c, d, d, e, e}, 1e-11);
  expect_near(run(-1), {2, 3, 2}, {f, 1 - f, f, 1 - f, f, 1 - f, g, 1 - g, g, 1 - g, g, 1 - g}, 1e-11);
}

TEST(Softmax, Gradient) {
  Context c = forward(*made("Softmax"), {pattern({2, 3}, 2)});
  backward(*made("Softmax"), c, pattern({2, 3}, 4));
  expect_near(c.input_gradient(0), {2, 3},
              {0.222021705898, 0.00504107221498, -0.227062778113, -0.289606117276, 0.30207093584, -0.0124648185644},
              1e-11);
}

TEST(Softmax, BadInputsAreNamed) {
  EXPECT_EQ(infer_error("Softmax", {{"axis", 2}}, {{DType::f32, {2, 3}}}),
            "[softmax] axis 2 is out of range; a tensor of rank 2 has axes -2 to 1");
  EXPECT_EQ(infer_error("Softmax", {}, {{DType::i32, {2, 3}}}),
            "[softmax] element type i32 is not defined by ONNX; legal: f32, f64, f16, bf16");
}

// A mask of minus infinity: what it hides is zero and cannot err, and the others err as if it were not there.
TEST(Softmax, HiddenByMinusInfinity) {
  const double hidden = -std::numeric_limits<double>::infinity();
  Context c = forward(*made("Softmax"), {doubles({1, 3}, {1, hidden, 2})});
  Context alone = forward(*made("Softmax"), {doubles({1, 2}, {1, 2})});
  const auto scale = list(made("Softmax")->magnitude(c, Pass::forward, 0));
  const auto expected = list(made("Softmax")->magnitude(alone, Pass::forward, 0));
  EXPECT_DOUBLE_EQ(scale[0], expected[0]);
  EXPECT_DOUBLE_EQ(scale[2], expected[1]);
  EXPECT_LT(scale[1], 1e-30);
  backward(*made("Softmax"), c, doubles({1, 3}, {1, 2, 3}));
  for (const double value : list(made("Softmax")->magnitude(c, Pass::backward, 0))) EXPECT_TRUE(std::isfinite(value));
}

TEST(Softmax, EmptyTensor) {
  expect_near(forward(*made("Softmax"), {Tensor(DType::f64, {0, 3})}).output(0), {0, 3}, {});
}

TEST(Lines, AlongAMiddleAxis) {
  const Tensor t = doubles({2, 3, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  std::vector<std::vector<double>> seen;
  for (auto [x] : lines<double>(1, t)) seen.emplace_back(x.begin(), x.end());
  EXPECT_EQ(seen, (std::vector<std::vector<double>>{{0, 2, 4}, {1, 3, 5}, {6, 8, 10}, {7, 9, 11}}));
  EXPECT_THROW(lines<double>(0, t, doubles({1}, {1})), Error);
}

TEST(Softmax, CasesHold) { expect_cases_hold("Softmax"); }

}  // namespace
}  // namespace d5
