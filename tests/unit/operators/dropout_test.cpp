// SPDX-License-Identifier: Apache-2.0
#include "d5/operators/dropout.hpp"

#include "run_operator.hpp"

namespace d5 {
namespace {

constexpr Index width = 40;

Tensor flag(bool value) { return Tensor::scalar(value ? 1.0 : 0.0, DType::boolean); }

// The mask of `samples` samples from number `first` on, in training.
Context drop(Index samples, uint64_t step, uint64_t first, double ratio = 0.25, int64_t seed = 7) {
  const auto op = made("Dropout", {{"seed", seed}});
  Context c{.inputs = {pattern({samples, width}, 3), doubles({}, {ratio}), flag(true)},
            .position = {.step = step, .first_sample = first}};
  c.outputs = {Tensor(DType::f64, {samples, width}), Tensor(DType::boolean, {samples, width})};
  op->forward(c);
  return c;
}
std::vector<double> mask(Index samples, uint64_t step, uint64_t first, double ratio = 0.25, int64_t seed = 7) {
  return list(drop(samples, step, first, ratio, seed).output(1));
}

TEST(Dropout, ABatchSplitInTwoKeepsTheSameElements) {
  const auto whole = mask(8, 5, 100);
  std::vector<double> halves = mask(3, 5, 100);
  for (const double kept : mask(5, 5, 103)) halves.push_back(kept);
  EXPECT_EQ(halves, whole);
}

TEST(Dropout, AnotherStepSampleOrSeedGivesAnotherMask) {
  const auto here = mask(8, 5, 100);
  EXPECT_EQ(mask(8, 5, 100), here);
  EXPECT_NE(mask(8, 6, 100), here);
  EXPECT_NE(mask(8, 5, 101), here);
  EXPECT_NE(mask(8, 5, 100, 0.25, 8), here);
  // Nor is one the other, shifted: the second sample of one step is not the first of the next.
  EXPECT_NE(mask(1, 5, 101), mask(1, 6, 100));
}

TEST(Dropout, KeepsTheShareAndScales) {
  const Context c = drop(2000, 1, 0, 0.25);
  const auto x = list(c.input(0)), y = list(c.output(0)), kept = list(c.output(1));
  double count = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_DOUBLE_EQ(y[i], kept[i] == 1 ? x[i] / 0.75 : 0);
    count += kept[i];
  }
  // 80,000 draws: the standard deviation of the share is 0.0015.
  EXPECT_NEAR(count / static_cast<double>(x.size()), 0.75, 5 * 0.00153);
}

TEST(Dropout, BackwardUsesTheSavedMask) {
  Context c = drop(2, 3, 0, 0.5);
  const auto kept = list(c.output(1));
  c.outputs.pop_back();
  c.position.step = 99;  // the mask is forward's, whatever comes after
  backward(*made("Dropout", {{"seed", 7}}), c, pattern({2, width}, 5));
  const auto dy = list(pattern({2, width}, 5)), dx = list(c.input_gradient(0));
  for (size_t i = 0; i < dx.size(); ++i) EXPECT_EQ(dx[i], kept[i] == 1 ? 2 * dy[i] : 0);
}

TEST(Dropout, NotInTrainingNothingIsDropped) {
  const Tensor x = pattern({3, 4}, 2);
  for (const std::vector<Tensor>& in : {std::vector<Tensor>{x},
                                        {x, doubles({}, {0.9})},
                                        {x, Tensor(), flag(false)},
                                        {x, doubles({}, {0.0}), flag(true)}}) {
    const Context c = forward(*made("Dropout"), in);
    EXPECT_EQ(list(c.output(0)), list(x));
    EXPECT_EQ(list(c.output(1)), std::vector<double>(12, 1));
  }
  // In training the ratio is 0.5 unless given.
  const auto y = list(forward(*made("Dropout"), {x, Tensor(), flag(true)}).output(0));
  for (size_t i = 0; i < y.size(); ++i) EXPECT_TRUE(y[i] == 0 || y[i] == 2 * list(x)[i]);
  EXPECT_EQ(list(forward(*made("Dropout"), {x, doubles({}, {1}), flag(true)}).output(0)), std::vector<double>(12, 0));
}

TEST(Dropout, BadInputsAreNamed) {
  EXPECT_EQ(message_of([] {
              forward(*made("Dropout"), {pattern({3}, 2), doubles({}, {1.5}), flag(true)});
            }),
            "[dropout] ratio is 1.5; 0 to 1 are legal");
  EXPECT_EQ(infer_error("Dropout", {}, {{DType::f32, {2}}, {DType::f32, {1}}}),
            "[dropout] ratio is 1, of rank 1; rank 0 is wanted");
}

}  // namespace
}  // namespace d5
