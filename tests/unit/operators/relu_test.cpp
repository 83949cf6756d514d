// SPDX-License-Identifier: Apache-2.0
#include "run_operator.hpp"

namespace d5 {
namespace {

TEST(Relu, HandComputed) {
  Context c = forward(*made("Relu"), {doubles({5}, {-2, -0.0, 0.5, 3, std::nan("")})});
  expect_near(c.output(0).slice(0, 4), {4}, {0, 0, 0.5, 3});
  EXPECT_TRUE(std::isnan(c.output(0).values<double>()[4]));
  backward(*made("Relu"), c, doubles({5}, {1, 2, 3, 4, 5}));
  expect_near(c.input_gradient(0), {5}, {0, 0, 3, 4, 0});
}

TEST(Relu, Integers) {
  const Context c = forward(*made("Relu"), {Tensor::from<int8_t>({3}, {-128, 0, 7})});
  expect_near(c.output(0), {3}, {0, 0, 7});
  EXPECT_EQ(infer_error("Relu", {}, {{DType::u8, {3}}}),
            "[relu] element type u8 is not defined by ONNX; legal: f32, f64, f16, bf16, i8, i16, i32, i64");
}

TEST(Relu, CasesHold) { expect_cases_hold("Relu"); }

}  // namespace
}  // namespace d5
