// SPDX-License-Identifier: Apache-2.0
#include "run_operator.hpp"

namespace d5 {
namespace {

TEST(Gemm, HandComputed) {
  // [1 2; 3 4] [5 6; 7 8] = [19 22; 43 50], then 2 * that + 10 * [1 -1]
  const auto op = made("Gemm", {{"alpha", 2.0}, {"beta", 10.0}});
  Context c = forward(*op, {doubles({2, 2}, {1, 2, 3, 4}), doubles({2, 2}, {5, 6, 7, 8}), doubles({2}, {1, -1})});
  expect_near(c.output(0), {2, 2}, {48, 34, 96, 90});
  backward(*op, c, doubles({2, 2}, {1, 0, 0, -1}));
  expect_near(c.input_gradient(0), {2, 2}, {10, 14, -12, -16});  // 2 dY B^T
  expect_near(c.input_gradient(1), {2, 2}, {2, -6, 4, -8});      // 2 A^T dY
  expect_near(c.input_gradient(2), {2}, {10, -10});              // 10 x column sums
}

TEST(Gemm, CasesHold) { expect_cases_hold("Gemm"); }

}  // namespace
}  // namespace d5
