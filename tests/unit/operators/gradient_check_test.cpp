// SPDX-License-Identifier: Apache-2.0
#include <set>

#include "run_operator.hpp"

namespace d5 {
namespace {

// y = x^3 elementwise, with a gradient that is off by a factor: a check without power would not see it.
class Cube final : public Operator {
 public:
  explicit Cube(double factor) : factor_(factor) {}
  std::vector<TensorSpec> infer(std::span<const TensorSpec> in) const override { return {in[0]}; }
  void forward(Context& c) const override {
    const auto x = c.input(0).values<double>(), y = c.output(0).values<double>();
    for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] * x[i] * x[i];
  }
  void backward(Context& c) const override {
    const auto x = c.input(0).values<double>(), dy = c.output_gradient(0).values<double>();
    for (size_t i = 0; i < x.size(); ++i) c.input_gradient(0).values<double>()[i] = factor_ * 3 * x[i] * x[i] * dy[i];
  }
  Cost cost(std::span<const TensorSpec>, Pass) const override { return {1, 1}; }
  Rounding rounding(std::span<const TensorSpec>, Pass, size_t) const override { return {.units = 2}; }

 private:
  double factor_;
};

TEST(GradientCheck, SeesARelativeErrorOfAMillionth) {
  const OperatorCase one{.inputs = {{.spec = {DType::f32, {5, 7}}}}};
  const auto right = check_gradient(Cube(1), one, 3), wrong = check_gradient(Cube(1 + 1e-6), one, 3);
  ASSERT_EQ(right.size(), 1u);
  EXPECT_EQ(right[0].directions, 35 + 1);  // every element, and all at once
  EXPECT_LE(right[0].worst, right[0].tolerance);
  EXPECT_LT(right[0].tolerance, 1e-8);
  EXPECT_GT(wrong[0].worst, wrong[0].tolerance);
}

TEST(GradientCheck, ValuesAreDistinctAndAwayFromZero) {
  for (const Index n : {1, 2, 9, 10}) {
    const OperatorCase one{.inputs = {{.spec = {DType::f32, {n}}}}};
    const auto values = list(separated_context(Cube(1), one, 5).input(0));
    const std::set<double> distinct(values.begin(), values.end());
    EXPECT_EQ(distinct.size(), static_cast<size_t>(n));
    double before = -4;
    for (const double value : distinct) {
      EXPECT_GT(value - before, 1.9 / (n + 1));
      EXPECT_GE(std::abs(value), 0.49 / (n + 1));
      EXPECT_LT(std::abs(value), 1);
      before = value;
    }
  }
}

}  // namespace
}  // namespace d5
