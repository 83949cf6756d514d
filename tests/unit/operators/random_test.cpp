// SPDX-License-Identifier: Apache-2.0
// What can be said of random tensors: their distribution within six deviations, and that a seed and a step fix them.
#include "run_operator.hpp"

namespace d5 {
namespace {

std::vector<double> drawn(const char* op, Attributes a, const std::vector<Tensor>& in = {}, uint64_t step = 0) {
  const auto made_op = made(op, a);
  Context c{.inputs = in, .position = {.step = step}};
  const TensorSpec y = made_op->infer(known_specs(in))[0];
  c.outputs.emplace_back(compute_dtype(y.dtype), y.shape);
  made_op->forward(c);
  return list(c.output(0));
}
double mean(const std::vector<double>& x) {
  double sum = 0;
  for (const double value : x) sum += value;
  return sum / static_cast<double>(x.size());
}

TEST(Random, NormalAndUniform) {
  const std::vector<int64_t> shape{100, 100};
  const auto normal = drawn("RandomNormal", {{"shape", shape}, {"mean", 3.0}, {"scale", 2.0}, {"seed", 1.0}});
  EXPECT_NEAR(mean(normal), 3, 6 * 2 / 100.0);
  const auto uniform = drawn("RandomUniform", {{"shape", shape}, {"low", -1.0}, {"high", 4.0}, {"seed", 1.0}});
  EXPECT_NEAR(mean(uniform), 1.5, 6 * 5 / std::sqrt(12.0) / 100);
  EXPECT_TRUE(std::ranges::all_of(uniform, [](double v) { return v >= -1 && v < 4; }));
}

TEST(Random, SeedAndStepFixThem) {
  const Attributes a{{"shape", std::vector<int64_t>{9}}, {"seed", 2.5}};
  EXPECT_EQ(drawn("RandomNormal", a), drawn("RandomNormal", a));
  EXPECT_NE(drawn("RandomNormal", a), drawn("RandomNormal", a, {}, 1));
  EXPECT_NE(drawn("RandomNormal", a), drawn("RandomNormal", {{"shape", std::vector<int64_t>{9}}, {"seed", 2.25}}));
}

TEST(Random, LikeAnInput) {
  const auto op = made("RandomUniformLike", {{"dtype", 11}});
  const auto out = op->infer(std::vector<TensorSpec>{{DType::i32, {2, 3}}});
  EXPECT_EQ(to_string(out[0]), "f64[2x3]");
  EXPECT_NE(infer_error("RandomUniformLike", {}, {{DType::i32, {2}}}), "no error");
}

TEST(Random, Bernoulli) {
  Tensor p(DType::f64, {10000});
  std::ranges::fill(p.values<double>(), 0.3);
  EXPECT_NEAR(mean(drawn("Bernoulli", {{"seed", 3.0}}, {p})), 0.3, 6 * std::sqrt(0.21) / 100);
  EXPECT_EQ(drawn("Bernoulli", {}, {doubles({4}, {0, 1, 0, 1})}), (std::vector<double>{0, 1, 0, 1}));
}

TEST(Random, Multinomial) {
  const Tensor x = doubles({2, 3}, {std::log(0.2), std::log(0.5), std::log(0.3), -1e9, 0, -1e9});
  const auto y = drawn("Multinomial", {{"sample_size", 10000}, {"seed", 1.0}}, {x});
  for (const auto& [label, share] : {std::pair{0.0, 0.2}, {1.0, 0.5}, {2.0, 0.3}})
    EXPECT_NEAR(static_cast<double>(std::count(y.begin(), y.begin() + 10000, label)) / 1e4, share, 6 * 0.5 / 100);
  EXPECT_EQ(std::count(y.begin() + 10000, y.end(), 1.0), 10000);
}

}  // namespace
}  // namespace d5
