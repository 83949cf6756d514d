// SPDX-License-Identifier: Apache-2.0
// Expected values: the examples in the text of each operator, and ONNX's node tests of the same names (1.23).
#include "run_operator.hpp"

namespace d5 {
namespace {

using Numbers = std::vector<double>;

Tensor indices(const std::vector<int64_t>& list) {
  return Tensor::from<int64_t>({static_cast<Index>(list.size())}, list);
}

TEST(Compress, AlongAnAxisAndFlat) {
  const Tensor x = doubles({3, 2}, {1, 2, 3, 4, 5, 6});
  const auto compress = [&](const Attributes& a, std::vector<bool> condition) {
    return forward(*made("Compress", a), {x, Tensor::from<bool>({static_cast<Index>(condition.size())}, condition)})
        .output(0);
  };
  expect_near(compress({{"axis", 0}}, {false, true, true}), {2, 2}, {3, 4, 5, 6});
  expect_near(compress({{"axis", -1}}, {false, true}), {3, 1}, {2, 4, 6});
  expect_near(compress({}, {false, true, false, false, true}), {2}, {2, 5});
}

TEST(Unique, SortedAndByOccurrence) {
  const Tensor x = doubles({6}, {2, 1, 1, 3, 4, 3});
  const auto lists = [](const Context& c) {
    std::vector<Numbers> all;
    for (const Tensor& t : c.outputs) all.push_back(list(t));
    return all;
  };
  EXPECT_EQ(lists(forward(*made("Unique"), {x})),
            (std::vector<Numbers>{{1, 2, 3, 4}, {1, 0, 3, 4}, {1, 0, 0, 2, 3, 2}, {2, 1, 2, 1}}));
  EXPECT_EQ(lists(forward(*made("Unique", {{"sorted", 0}}), {x})),
            (std::vector<Numbers>{{2, 1, 3, 4}, {0, 1, 3, 4}, {0, 1, 1, 2, 3, 2}, {1, 2, 2, 1}}));
  const Tensor cube = doubles({2, 4, 2}, {1, 1, 0, 1, 2, 1, 0, 1, 1, 1, 0, 1, 2, 1, 0, 1});
  const Context c = forward(*made("Unique", {{"axis", 1}}), {cube});
  expect_near(c.output(0), {2, 3, 2}, {0, 1, 1, 1, 2, 1, 0, 1, 1, 1, 2, 1});
  EXPECT_EQ(list(c.output(1)), (Numbers{1, 0, 2}));
  EXPECT_EQ(list(c.output(2)), (Numbers{1, 0, 2, 0}));
  EXPECT_EQ(list(c.output(3)), (Numbers{2, 1, 1}));
}

TEST(Unique, NanEqualsNothing) {
  const Context c = forward(*made("Unique"), {doubles({4}, {std::nan(""), 1, std::nan(""), 1})});
  ASSERT_EQ(c.output(0).elements(), 3);
  EXPECT_EQ(list(c.output(0))[0], 1);
  EXPECT_EQ(list(c.output(3)), (Numbers{2, 1, 1}));
}

TEST(ReverseSequence, ByTimeAndBatch) {
  const Tensor x = doubles({4, 4}, {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15});
  expect_near(forward(*made("ReverseSequence"), {x, indices({4, 3, 2, 1})}).output(0), {4, 4},
              {3, 6, 9, 12, 2, 5, 8, 13, 1, 4, 10, 14, 0, 7, 11, 15});
  const Attributes batch{{"batch_axis", 0}, {"time_axis", 1}};
  expect_near(
      forward(*made("ReverseSequence", batch), {doubles({2, 3}, {0, 1, 2, 3, 4, 5}), indices({0, 2})}).output(0),
      {2, 3}, {0, 1, 2, 4, 3, 5});
}

TEST(CenterCropPad, RoundsAsOnnxSays) {
  const auto y = [](Index size, Index wanted) {
    Tensor x(DType::f64, {size});
    for (Index i = 0; i < size; ++i) x.values<double>()[i] = static_cast<double>(i + 1);
    return list(forward(*made("CenterCropPad"), {x, indices({wanted})}).output(0));
  };
  EXPECT_EQ(y(5, 2), (Numbers{2, 3}));  // half a pixel to the left
  EXPECT_EQ(y(2, 5), (Numbers{0, 1, 2, 0, 0}));
  EXPECT_EQ(y(3, 3), (Numbers{1, 2, 3}));
}

TEST(TensorScatter, Circular) {
  const Tensor past = doubles({2, 4, 1}, {1, 2, 3, 4, 5, 6, 7, 8}), update = doubles({2, 2, 1}, {10, 20, 30, 40});
  expect_near(forward(*made("TensorScatter", {{"mode", "circular"}}), {past, update, indices({1, 3})}).output(0),
              {2, 4, 1}, {1, 10, 20, 4, 40, 6, 7, 30});
  EXPECT_EQ(message_of([&] {
              forward(*made("TensorScatter"), {past, update, indices({1, 3})});
            }),
            "[tensor_scatter] sample 1 is written from 3 on; 2 entries do not fit into 4");
}

TEST(EyeLike, AnyDiagonal) {
  expect_near(forward(*made("EyeLike", {{"k", 1}, {"dtype", 7}}), {doubles({2, 3}, {0, 0, 0, 0, 0, 0})}).output(0),
              {2, 3}, {0, 1, 0, 0, 0, 1});
}

TEST(Hardmax, FirstLargest) {
  expect_near(forward(*made("Hardmax"), {doubles({2, 4}, {3, 0, 3, 2, 2, 5, 5, 1})}).output(0), {2, 4},
              {1, 0, 0, 0, 0, 1, 0, 0});
}

TEST(CumProd, ExclusiveAndReverse) {
  const auto y = [](const Attributes& a) {
    return list(forward(*made("CumProd", a), {doubles({3}, {1, 2, 3}), indices({0})}).output(0));
  };
  EXPECT_EQ(y({}), (Numbers{1, 2, 6}));
  EXPECT_EQ(y({{"exclusive", 1}}), (Numbers{1, 1, 2}));
  EXPECT_EQ(y({{"reverse", 1}}), (Numbers{6, 6, 3}));
  EXPECT_EQ(y({{"exclusive", 1}, {"reverse", 1}}), (Numbers{6, 3, 1}));
}

TEST(Det, SmallMatrices) {
  expect_near(forward(*made("Det"), {doubles({2, 2}, {0, 1, 2, 3})}).output(0), {}, {-2});
  expect_near(forward(*made("Det"), {doubles({2, 2, 2}, {1, 2, 3, 4, 1, 2, 2, 4})}).output(0), {2}, {-2, 0});
  expect_near(forward(*made("Det"), {doubles({3, 3}, {2, 0, 1, 1, 3, 2, 1, 1, 4})}).output(0), {}, {18});
}

// The last paragraph of BitShift (opset 28).
TEST(BitShift, OutOfRangeLeavesTheSign) {
  const Tensor x = Tensor::from<int8_t>({4}, {-100, 100, -1, 3}), y = Tensor::from<int8_t>({4}, {8, 9, -1, 1});
  EXPECT_EQ(list(forward(*made("BitShift", {{"direction", "RIGHT"}}), {x, y}).output(0)), (Numbers{-1, 0, -1, 1}));
  EXPECT_EQ(list(forward(*made("BitShift", {{"direction", "LEFT"}}), {x, y}).output(0)), (Numbers{0, 0, 0, 6}));
  const Tensor big = Tensor::from<uint64_t>({1}, {UINT64_MAX}), one = Tensor::from<uint64_t>({1}, {63});
  EXPECT_EQ(forward(*made("BitShift", {{"direction", "RIGHT"}}), {big, one}).output(0).values<uint64_t>()[0], 1u);
}

TEST(Shrink, HardAndSoft) {
  const Tensor x = doubles({5}, {-2, -1, 0, 1, 2});
  expect_near(forward(*made("Shrink", {{"lambd", 1.5}}), {x}).output(0), {5}, {-2, 0, 0, 0, 2});
  expect_near(forward(*made("Shrink", {{"lambd", 1.5}, {"bias", 1.5}}), {x}).output(0), {5}, {-0.5, 0, 0, 0, 0.5});
}

TEST(LpNormalization, ZerosStayZero) {
  expect_near(forward(*made("LpNormalization"), {doubles({2, 2}, {3, -4, 0, 0})}).output(0), {2, 2}, {0.6, -0.8, 0, 0});
  expect_near(forward(*made("LpNormalization", {{"p", 1}, {"axis", 0}}), {doubles({2, 1}, {3, -1})}).output(0), {2, 1},
              {0.75, -0.25});
}

TEST(MeanVarianceNormalization, ByChannel) {
  const Tensor y = forward(*made("MeanVarianceNormalization"), {doubles({2, 2, 1, 1}, {1, 10, 3, 30})}).output(0);
  expect_near(y, {2, 2, 1, 1}, {-1, -1, 1, 1}, 1e-8);
}

TEST(Movement, StringsMoveToo) {
  const Tensor words = Tensor::from<std::string>({3}, {"a", "b", "c"});
  const auto texts = [](const Tensor& t) {
    return std::vector<std::string>(t.values<std::string>().begin(), t.values<std::string>().end());
  };
  using Words = std::vector<std::string>;
  EXPECT_EQ(texts(forward(*made("Gather"), {words, indices({2, 0})}).output(0)), (Words{"c", "a"}));
  EXPECT_EQ(texts(forward(*made("Concat", {{"axis", 0}}), {words, words}).output(0)),
            (Words{"a", "b", "c", "a", "b", "c"}));
  EXPECT_EQ(texts(forward(*made("Where"),
                          {Tensor::from<bool>({3}, {true, false, true}), words, Tensor::from<std::string>({}, {"z"})})
                      .output(0)),
            (Words{"a", "z", "c"}));
  EXPECT_EQ(list(forward(*made("Equal"), {words, Tensor::from<std::string>({}, {"b"})}).output(0)), (Numbers{0, 1, 0}));
}

TEST(Movement, CasesHold) {
  for (const char* op : {"Compress", "Unique", "ReverseSequence", "CenterCropPad", "TensorScatter", "EyeLike",
                         "Hardmax", "CumProd", "Det", "Shrink", "LpNormalization", "MeanVarianceNormalization"})
    expect_cases_hold(op);
}

}  // namespace
}  // namespace d5
