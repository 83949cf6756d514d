// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "d5/operators/operator.hpp"

namespace d5 {
namespace {

// [[0, 2, 0], [0, 0, 0], [3, 0, -1]] times [[1, 4], [2, 5], [3, 6]], as Operator's loops see it: f64 and i32.
Context example() {
  Context c;
  c.inputs = {Tensor::from<double>({3}, {2, 3, -1}), Tensor::from<int32_t>({3}, {1, 0, 2}),
              Tensor::from<int32_t>({4}, {0, 1, 1, 3}), Tensor::from<double>({3, 2}, {1, 4, 2, 5, 3, 6})};
  c.outputs = {Tensor(DType::f64, {3, 2})};
  return c;
}
std::vector<double> values(const Tensor& t) { return {t.values<double>().begin(), t.values<double>().end()}; }

TEST(SparseGemm, MultipliesByHand) {
  Context c = example();
  const auto op = registered<operators>("SparseGemm").make({});
  op->forward(c);
  EXPECT_EQ(values(c.outputs[0]), (std::vector<double>{4, 10, 0, 0, 0, 6}));
  const std::vector<Index> at{1, 5};
  std::vector<double> some(2);
  op->forward_at(c, 0, at, some);
  EXPECT_EQ(some, (std::vector<double>{10, 6}));
}

// dY = [[1, 1], [7, 7], [1, 0]]: dvalues are rows of dY times rows of B, dB is A^T dY.
TEST(SparseGemm, GradientsByHandWholeAndSingle) {
  Context c = example();
  const auto op = registered<operators>("SparseGemm").make({});
  c.output_gradients = {Tensor::from<double>({3, 2}, {1, 1, 7, 7, 1, 0})};
  c.input_gradients = {Tensor(DType::f64, {3}), Tensor(), Tensor(), Tensor(DType::f64, {3, 2})};
  op->backward(c);
  EXPECT_EQ(values(c.input_gradients[0]), (std::vector<double>{7, 1, 3}));
  EXPECT_EQ(values(c.input_gradients[3]), (std::vector<double>{3, 0, 2, 2, -1, 0}));
  std::vector<double> some(3);
  op->backward_at(c, 0, std::vector<Index>{0, 1, 2}, some);
  EXPECT_EQ(some, (std::vector<double>{7, 1, 3}));
  op->backward_at(c, 3, std::vector<Index>{0, 3, 4}, some);
  EXPECT_EQ(some, (std::vector<double>{3, 2, -1}));
}

TEST(SparseGemm, AnIndexThatLeadsOutsideIsAnError) {
  Context c = example();
  c.inputs[1].values<int32_t>()[2] = 3;
  EXPECT_THROW(registered<operators>("SparseGemm").make({})->forward(c), Error);
  c = example();
  c.inputs[2].values<int32_t>()[1] = 5;
  EXPECT_THROW(registered<operators>("SparseGemm").make({})->forward(c), Error);
}

TEST(SparseGemm, ACaseHasTheWantedShareOfZerosAndNoColumnTwice) {
  const OperatorEntry& entry = registered<operators>("SparseGemm");
  const OperatorCase one = entry.describe({{"m", 50}, {"n", 3}, {"k", 200}, {"sparsity", 0.9}}, DType::f32);
  EXPECT_EQ(one.inputs[0].spec.shape, (Shape{50 * 20}));
  const auto columns = one.inputs[1].spec.known->values<int32_t>();
  for (size_t i = 0; i < 50; ++i)
    for (size_t p = 1; p < 20; ++p) EXPECT_LT(columns[i * 20 + p - 1], columns[i * 20 + p]);
  EXPECT_FALSE(std::ranges::equal(columns.subspan(0, 20), columns.subspan(20, 20)));  // rows differ
  EXPECT_THROW(entry.describe({{"m", 5}, {"n", 3}, {"k", 20}, {"sparsity", 1.5}}, DType::f32), UsageError);
}

}  // namespace
}  // namespace d5
