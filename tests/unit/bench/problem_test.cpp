// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/problem.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "d5/core/convert.hpp"

namespace d5 {
namespace {

OperatorCase gemm(int64_t m, int64_t n, int64_t k, DType type = DType::f32) {
  const OperatorEntry& entry = registered<operators>("Gemm");
  return entry.describe(complete_values("Gemm", entry, {{"m", m}, {"n", n}, {"k", k}, {"bias", false}}), type);
}

// One row times one column of length 100: |error| <= (min(100, 6 sqrt 100) + units) u sum|ab| + u |y|.
TEST(Problem, TheToleranceIsTheDerivedOne) {
  const OperatorCase one = gemm(1, 1, 100);
  const Problem problem = make_problem("Gemm", one, {});
  const Tensor a = problem.inputs[0].second.cast(DType::f64), b = problem.inputs[1].second.cast(DType::f64);
  double sum = 0, magnitude = 0;
  for (int i = 0; i < 100; ++i) {
    sum += a.values<double>()[i] * b.values<double>()[i];
    magnitude += std::abs(a.values<double>()[i] * b.values<double>()[i]);
  }
  const double units =
      registered<operators>("Gemm").make(one.attributes)->rounding(one.specs(), Pass::forward, 0).units;
  const double u = std::ldexp(1.0, -24);
  ASSERT_EQ(problem.expected.size(), 1u);
  EXPECT_NEAR(problem.expected[0].values[0], sum, 1e-14);
  EXPECT_NEAR(problem.expected[0].tolerance[0], (60 + units) * u * magnitude + u * std::abs(sum), 1e-12);
}

TEST(Problem, LargeCasesAreSampledWithTheirEdges) {
  const Problem problem = make_problem("Gemm", gemm(600, 500, 400), {});
  const Expected& e = problem.expected[0];
  EXPECT_GE(e.at.size(), 1000u);
  EXPECT_LT(e.at.size(), 2000u);
  const std::set<Index> at(e.at.begin(), e.at.end());
  for (const Index edge : {0, 499, 599 * 500, 600 * 500 - 1}) EXPECT_TRUE(at.contains(edge)) << edge;
  // The sample is the whole, at those places.
  ProblemOptions all;
  all.full_flops = 1e12;
  const Problem whole = make_problem("Gemm", gemm(600, 500, 400), all);
  for (size_t i = 0; i < e.at.size(); ++i) {
    EXPECT_NEAR(e.values[i], whole.expected[0].values[e.at[i]], 1e-11);
    EXPECT_NEAR(e.tolerance[i], whole.expected[0].tolerance[e.at[i]], 1e-13);
  }
}

TEST(Problem, IntegersKeepSumsExactAndAskForEquality) {
  ProblemOptions options;
  options.inputs = InputValues::integers;
  const Problem problem = make_problem("Gemm", gemm(5, 6, 7, DType::bf16), options);
  for (const auto& [name, tensor] : problem.inputs)
    for (Index i = 0; i < tensor.elements(); ++i) {
      const double value = load_as_double(tensor.dtype(), tensor.data(), i);
      EXPECT_EQ(value, std::round(value));
    }
  EXPECT_TRUE(problem.expected[0].exact);
  for (const double tolerance : problem.expected[0].tolerance) EXPECT_EQ(tolerance, 0);
}

TEST(Problem, TheSameSeedGivesTheSameInputsAndAnotherDoesNot) {
  ProblemOptions options;
  const Problem first = make_problem("Gemm", gemm(9, 8, 7), options),
                again = make_problem("Gemm", gemm(9, 8, 7), options);
  options.seed = 2;
  const Problem other = make_problem("Gemm", gemm(9, 8, 7), options);
  EXPECT_EQ(first.expected[0].values, again.expected[0].values);
  EXPECT_NE(first.expected[0].values, other.expected[0].values);
}

}  // namespace
}  // namespace d5
