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

OperatorCase described(const std::string& op, const Attributes& values, DType type) {
  const OperatorEntry& entry = registered<operators>(op);
  return entry.describe(complete_values(op, entry, values), type);
}

// A sum of 2^25 ones is no number of f32 on its way: 2^24 + 1 is not.
TEST(Problem, SumsThatExceedTheAccumulatorAreNotExact) {
  for (const char* op : {"ReduceSum", "ReduceSumSquare", "ReduceL1"}) {
    const auto is_exact = [&](const char* shape, DType type) {
      return exact_on_integers(op, described(op, {{"shape", shape}}, type), Pass::forward);
    };
    EXPECT_TRUE(is_exact("1024x1024", DType::f32)) << op;
    EXPECT_FALSE(is_exact("8192x4096", DType::f32)) << op;
    EXPECT_TRUE(is_exact("8192x4096", DType::f64)) << op;
  }
}

// Images of bf16 whose scale is f32: where sums are rounded to bf16, so is the scale's gradient.
TEST(Problem, RoundingOnTheWayCountsForResultsOfWiderTypes) {
  const OperatorCase one = described("BatchNormalization", {{"shape", "4x3x5x5"}}, DType::bf16);
  ASSERT_EQ(one.inputs[1].spec.dtype, DType::f32);
  ProblemOptions options{.pass = Pass::backward};
  const Problem wide = make_problem("BatchNormalization", one, options);
  options.narrow = true;
  const Problem narrow = make_problem("BatchNormalization", one, options);
  ASSERT_EQ(narrow.expected[1].dtype, DType::f32);
  for (size_t i = 0; i < narrow.expected[1].values.size(); ++i) {
    EXPECT_EQ(narrow.expected[1].values[i], wide.expected[1].values[i]);
    EXPECT_GT(narrow.expected[1].tolerance[i], 100 * wide.expected[1].tolerance[i]);
    EXPECT_LT(narrow.expected[1].tolerance[i], 0x1p17 * wide.expected[1].tolerance[i]);
  }
}

// alpha x + beta in two steps of bf16 meets 0 and 1 where the line itself does not: the slope there is alpha or 0, and
// elsewhere what it was.
TEST(Problem, AKinkIsAsWideAsTheRoundingBeforeIt) {
  const auto round = [](float v) { return static_cast<float>(BFloat16(v)); };
  const OperatorCase one = described("HardSigmoid", {{"shape", "40000"}}, DType::bf16);
  ProblemOptions options{.pass = Pass::backward};
  for (const bool narrow : {false, true}) {
    options.narrow = narrow;
    const Problem problem = make_problem("HardSigmoid", one, options);
    const Tensor x = problem.inputs[0].second.cast(DType::f32),
                 dy = problem.output_gradients[0].second.cast(DType::f32);
    const Expected& e = problem.expected[0];
    int beyond = 0, undecided = 0;
    for (size_t i = 0; i < e.values.size(); ++i) {
      const float line = round(round(0.2f * x.values<float>()[i]) + 0.5f), down = round(0.2f * dy.values<float>()[i]);
      const bool with_ends = line >= 0 && line <= 1, without_ends = line > 0 && line < 1;
      for (const bool rises : {with_ends, without_ends})
        beyond += !(std::abs((rises ? down : 0) - e.values[i]) <= e.tolerance[i]);
      undecided += e.tolerance[i] > 0.1 * std::abs(dy.values<float>()[i]);
    }
    if (narrow) {
      EXPECT_EQ(beyond, 0);
      EXPECT_LT(undecided, 2000);  // two bands of 8 u / alpha each, of 8.1
    } else {
      EXPECT_GT(beyond, 0);
    }
  }
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
