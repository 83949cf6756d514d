// SPDX-License-Identifier: Apache-2.0
// ai.onnx.preview.training. Expected values: ONNX's node tests adam, nesterov_momentum and adagrad_multiple (1.23).
#include "run_operator.hpp"

namespace d5 {
namespace {

Tensor count(int64_t value) { return Tensor::from<int64_t>({}, {value}); }

TEST(Updates, Adam) {
  const Attributes a{{"alpha", 0.95}, {"beta", 0.1}, {"epsilon", 1e-7}, {"norm_coefficient", 0.001}};
  const Context c = forward(*made("ai.onnx.preview.training:Adam", a),
                            {doubles({}, {0.1}), count(0), doubles({2}, {1.2, 2.8}), doubles({2}, {-0.94, -2.5}),
                             doubles({2}, {1.7, 3.6}), doubles({2}, {0.1, 0.1})});
  expect_near(c.output(0), {2}, {1.025036334991455, 2.6610326766967773}, 1e-6);
  expect_near(c.output(1), {2}, {1.568060040473938, 3.295139789581299}, 1e-6);
  expect_near(c.output(2), {2}, {0.8032107949256897, 5.622406959533691}, 1e-6);
}

// R sqrt(1 - beta^T) / (1 - alpha^T), by hand for T = 2.
TEST(Updates, AdamAdjustsItsRate) {
  const Attributes a{{"alpha", 0.5}, {"beta", 0.75}, {"epsilon", 0.0}, {"norm_coefficient_post", 0.5}};
  const Context c =
      forward(*made("ai.onnx.preview.training:Adam", a),
              {doubles({}, {1}), count(2), doubles({1}, {1}), doubles({1}, {2}), doubles({1}, {0}), doubles({1}, {0})});
  expect_near(c.output(0), {1}, {0.5 * (1 - std::sqrt(1 - 0.5625) / 0.75 * 1 / 1)});
}

TEST(Updates, Momentum) {
  const std::vector<Tensor> in{doubles({}, {0.1}), count(0), doubles({2}, {1.2, 2.8}), doubles({2}, {-0.94, -2.5}),
                               doubles({2}, {1.7, 3.6})};
  Attributes a{{"alpha", 0.95}, {"beta", 1.0}, {"mode", "nesterov"}, {"norm_coefficient", 0.01}};
  const Context nesterov = forward(*made("ai.onnx.preview.training:Momentum", a), in);
  expect_near(nesterov.output(0), {2}, {1.2275350093841553, 2.9571399688720703}, 1e-6);
  expect_near(nesterov.output(1), {2}, {0.687000036239624, 0.9479999542236328}, 1e-6);
  a.set("mode", "standard");
  expect_near(forward(*made("ai.onnx.preview.training:Momentum", a), in).output(0), {2}, {1.2 - 0.0687, 2.8 - 0.0948},
              1e-9);
}

TEST(Updates, AdagradOfTwoTensors) {
  const Attributes a{{"decay_factor", 0.1}, {"epsilon", 1e-5}, {"norm_coefficient", 0.001}};
  const Context c = forward(*made("ai.onnx.preview.training:Adagrad", a),
                            {doubles({}, {0.1}), count(0), doubles({1}, {1}), doubles({2}, {1, 2}), doubles({1}, {-1}),
                             doubles({2}, {-1, -3}), doubles({1}, {2}), doubles({2}, {4, 1})});
  expect_near(c.output(0), {1}, {1.0576962232589722}, 1e-6);
  expect_near(c.output(1), {2}, {1.0446853637695312, 2.0948617458343506}, 1e-6);
  expect_near(c.output(2), {1}, {2.9980010986328125}, 1e-6);
  expect_near(c.output(3), {2}, {4.9980010986328125, 9.988003730773926}, 1e-6);
}

}  // namespace
}  // namespace d5
