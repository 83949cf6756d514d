// SPDX-License-Identifier: Apache-2.0
// Operators that move data: Transpose, Slice, Pad, Concat, Split. Expected numbers: the examples of ONNX's
// documentation, numpy 2.4, and by hand; gradients by hand.
#include "d5/operators/selection.hpp"

#include "run_operator.hpp"

namespace d5 {
namespace {

Tensor indices(const std::vector<int64_t>& list) {
  return Tensor::from<int64_t>({static_cast<Index>(list.size())}, list);
}

Tensor counting(const Shape& shape) {
  Tensor t(DType::f64, shape);
  for (Index i = 0; i < t.elements(); ++i) t.values<double>()[i] = static_cast<double>(i);
  return t;
}

TEST(Sources, WalkAndRandomAccessAgree) {
  Sources from;
  from.add_axis(2, 7);
  from.steps.push_back({3, Sources::none, 0, 3});
  from.add_axis(3, 1);
  EXPECT_EQ(from.elements(), 24);
  EXPECT_EQ(from.distinct(), 2 * 2 * 3);
  EXPECT_EQ(from.most_readers(), 2);
  Index expected = 0;
  from.for_each([&](Index i, Index source) {
    EXPECT_EQ(i, expected++);
    EXPECT_EQ(source, from(i));
  });
  EXPECT_EQ(expected, 24);
  EXPECT_EQ(from(3), Sources::none);
  EXPECT_EQ(from(23), 7 + 3 + 2);
  Index visits = 0;
  Sources{}.for_each([&](Index i, Index source) { visits += 1 + i + source; });  // a scalar
  EXPECT_EQ(visits, 1);
}

TEST(Transpose, NumpyAndGradient) {
  Context c = forward(*made("Transpose", {{"perm", std::vector<int64_t>{2, 0, 1}}}), {pattern({2, 3, 2}, 1)});
  expect_near(c.output(0), {2, 2, 3}, {-0.25, -1, 1.5, 0.75, 0, -0.75, 1, 0.25, -0.5, -1.25, 1.25, 0.5});
  backward(*made("Transpose", {{"perm", std::vector<int64_t>{2, 0, 1}}}), c, counting({2, 2, 3}));
  expect_near(c.input_gradient(0), {2, 3, 2}, {0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11});
  expect_near(forward(*made("Transpose"), {counting({2, 3})}).output(0), {3, 2}, {0, 3, 1, 4, 2, 5});
  EXPECT_EQ(infer_error("Transpose", {{"perm", std::vector<int64_t>{0, 0}}}, {{DType::f32, {2, 3}}}),
            "[transpose] perm is 0,0; X is 2x3 and needs each of its 2 axes once");
}

// ONNX's text: for negative stepping starts are clamped to [0, size - 1], ends to [-1, size - 1].
TEST(Slice, BackwardsFromBeforeTheAxis) {
  const Tensor x = counting({3});
  expect_near(forward(*made("Slice"), {x, indices({-9}), indices({-12}), indices({0}), indices({-1})}).output(0), {1},
              {list(x)[0]});
  expect_near(forward(*made("Slice"), {x, indices({9}), indices({0}), indices({0}), indices({-1})}).output(0), {2},
              {list(x)[2], list(x)[1]});
}

TEST(Slice, OnnxDocumentation) {
  const Tensor x = doubles({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  expect_near(
      forward(*made("Slice"), {x, indices({1, 0}), indices({2, 3}), indices({0, 1}), indices({1, 2})}).output(0),
      {1, 2}, {5, 7});
  expect_near(forward(*made("Slice"), {x, indices({0, 1}), indices({-1, 1000})}).output(0), {1, 3}, {2, 3, 4});
}

TEST(Slice, BackwardsAndOutOfBounds) {
  const Tensor x = pattern({3, 5}, 2);
  Context c = forward(*made("Slice"), {x, indices({-1, 4}), indices({-9, 0}), indices({0, 1}), indices({-1, -2})});
  expect_near(c.output(0), {3, 2}, {-0.5, -0.75, 0.5, 0.25, 1.5, 1.25});
  backward(*made("Slice"), c, counting({3, 2}));
  expect_near(c.input_gradient(0), {3, 5}, {0, 0, 5, 0, 4, 0, 0, 3, 0, 2, 0, 0, 1, 0, 0});
  const auto taken = [&](int64_t start, int64_t end, int64_t step) {
    return list(
        forward(*made("Slice"), {counting({5}), indices({start}), indices({end}), indices({0}), indices({step})})
            .output(0));
  };
  EXPECT_EQ(taken(INT64_MAX, INT64_MIN, -1), (std::vector<double>{4, 3, 2, 1, 0}));
  EXPECT_EQ(taken(INT64_MAX, INT64_MIN, INT64_MIN), (std::vector<double>{4}));
  EXPECT_EQ(taken(0, INT64_MAX, INT64_MAX), (std::vector<double>{0}));
  EXPECT_EQ(taken(3, 1, 1), std::vector<double>());
  EXPECT_EQ(taken(-1000, 1000, 2), (std::vector<double>{0, 2, 4}));
  EXPECT_EQ(message_of([&] { taken(0, 3, 0); }), "[slice] a step is 0; it must not be");
}

TEST(Slice, UnknownStartsAreNamed) {
  const TensorSpec x{DType::f32, {4, 5}}, list{DType::i64, {1}};
  EXPECT_EQ(infer_error("Slice", {}, {x, list, list}),
            "[slice] the value of starts must be known before the run; it is not");
  EXPECT_EQ(infer_error("Slice", {}, {x, known_spec(indices({0})), known_spec(indices({1, 2}))}),
            "[slice] 1 starts, 2 ends, 1 axes and 1 steps are given; their numbers must agree");
}

TEST(Pad, EveryMode) {
  const auto padded = [](const char* mode, const std::vector<int64_t>& pads) {
    return forward(*made("Pad", {{"mode", mode}}), {pattern({2, 3}, 1), indices(pads)}).output(0);
  };
  expect_near(padded("reflect", {1, 2, 0, 1}), {3, 6},
              {-0.5, 1.5, 0.25, 1.5, -0.5, 1.5, -1, 1, -0.25, 1, -1, 1, -0.5, 1.5, 0.25, 1.5, -0.5, 1.5});
  expect_near(padded("edge", {1, 2, 0, 1}), {3, 6},
              {-0.25, -0.25, -0.25, 1, -1, -1, -0.25, -0.25, -0.25, 1, -1, -1, 0.25, 0.25, 0.25, 1.5, -0.5, -0.5});
  expect_near(padded("wrap", {1, 4, 0, 1}), {3, 8},
              {-0.5,  0.25, 1.5, -0.5,  0.25, 1.5,  -0.5, 0.25, -1,   -0.25, 1,    -1,
               -0.25, 1,    -1,  -0.25, -0.5, 0.25, 1.5,  -0.5, 0.25, 1.5,   -0.5, 0.25});
  expect_near(padded("constant", {1, 0, -1, 2}), {2, 5}, {0, 0, 0, 0, 0, -0.25, 1, -1, 0, 0});
  // What was removed does not come back: numpy.pad of x[:, 1:], as ONNX Runtime has it.
  expect_near(padded("wrap", {0, -1, 0, 2}), {2, 4}, {1, -1, 1, -1, 1.5, -0.5, 1.5, -0.5});
  EXPECT_EQ(message_of([&] { padded("edge", {0, -3, 0, 1}); }), "[pad] axis 1 is empty: mode edge has nothing to copy");
  // A mirror between two mirrors: numpy reflects again and again.
  expect_near(padded("reflect", {0, 5, 0, 4}).slice(0, 1), {1, 12},
              {1, -0.25, 1, -1, 1, -0.25, 1, -1, 1, -0.25, 1, -1});
}

TEST(Pad, ConstantHasAGradient) {
  Context c = forward(*made("Pad"), {counting({3}), indices({1, 2}), doubles({}, {7})});
  expect_near(c.output(0), {6}, {7, 0, 1, 2, 7, 7});
  backward(*made("Pad"), c, doubles({6}, {1, 2, 3, 4, 5, 6}));
  expect_near(c.input_gradient(0), {3}, {2, 3, 4});
  expect_near(c.input_gradient(2), {}, {1 + 5 + 6});
}

TEST(Pad, BadInputsAreNamed) {
  const TensorSpec x{DType::f32, {2, 3}};
  EXPECT_EQ(infer_error("Pad", {}, {x, known_spec(indices({1, 2}))}),
            "[pad] pads is 1,2; 4 values are wanted, two for each of 2 axes");
  EXPECT_EQ(infer_error("Pad", {}, {x, known_spec(indices({0, -2, 0, -2}))}),
            "[pad] axis 1 of size 3 with pads of -2 and -2 has no size");
  EXPECT_EQ(infer_error("Pad", {{"mode", "mirror"}}, {}).substr(0, 27), "[pad] unknown mode 'mirror'");
  EXPECT_EQ(infer_error("Pad", {{"mode", "edge"}}, {{DType::f32, {0}}, known_spec(indices({1, 0}))}),
            "[pad] axis 0 is empty: mode edge has nothing to copy");
}

TEST(Concat, PartsAndTheirGradients) {
  Context c = forward(*made("Concat", {{"axis", 1}}), {counting({2, 2}), doubles({2, 1}, {8, 9})});
  expect_near(c.output(0), {2, 3}, {0, 1, 8, 2, 3, 9});
  backward(*made("Concat", {{"axis", 1}}), c, counting({2, 3}));
  expect_near(c.input_gradient(0), {2, 2}, {0, 1, 3, 4});
  expect_near(c.input_gradient(1), {2, 1}, {2, 5});
  EXPECT_EQ(infer_error("Concat", {{"axis", 0}}, {{DType::f32, {2, 3}}, {DType::f32, {2, 4}}}),
            "[concat] inputs 0 and 1 are 2x3 and 2x4; all sizes but that of axis 0 must agree");
  EXPECT_EQ(infer_error("Concat", {}, {{DType::f32, {2}}}), "[concat] attribute axis is missing; it has no default");
  const Tensor flags = Tensor::from<bool>({2}, {true, false});
  expect_near(forward(*made("Concat", {{"axis", 0}}), {flags, flags}).output(0), {4}, {1, 0, 1, 0});
}

TEST(Split, NumberOfPartsAndSizes) {
  Context c = forward(*made("Split", {{"num_outputs", 3}}), {counting({7})});
  ASSERT_EQ(c.outputs.size(), 3u);
  expect_near(c.output(0), {3}, {0, 1, 2});
  expect_near(c.output(2), {1}, {6});
  c = forward(*made("Split", {{"axis", 1}}), {counting({2, 3}), indices({2, 1})});
  expect_near(c.output(1), {2, 1}, {2, 5});
  backward(*made("Split", {{"axis", 1}}), c, counting({2, 2}));  // the second part has no gradient
  expect_near(c.input_gradient(0), {2, 3}, {0, 1, 0, 2, 3, 0});
  EXPECT_EQ(infer_error("Split", {{"axis", 1}}, {{DType::f32, {2, 3}}, known_spec(indices({2, 2}))}),
            "[split] split is 2,2; sizes that add up to 3 are wanted, axis 1 of 2x3");
  EXPECT_EQ(infer_error("Split", {}, {{DType::f32, {2, 3}}}),
            "[split] exactly one of the input split and the attribute num_outputs is wanted");
  EXPECT_EQ(infer_error("Split", {{"num_outputs", 4}}, {{DType::f32, {5}}}),
            "[split] 5 elements along axis 0 cannot be cut into 4 parts of 2 and a smaller last one");
}

TEST(Known, FlowsThroughDataMovement) {
  const auto part = made("Slice")->infer(
      std::vector{known_spec(indices({8, 3, 56, 56})), known_spec(indices({2})), known_spec(indices({4}))});
  ASSERT_TRUE(part[0].known);
  EXPECT_EQ(integers(*part[0].known), (std::vector<Index>{56, 56}));
  const auto whole = made("Concat", {{"axis", 0}})->infer(std::vector{known_spec(indices({-1})), part[0]});
  ASSERT_TRUE(whole[0].known);
  EXPECT_EQ(integers(*whole[0].known), (std::vector<Index>{-1, 56, 56}));
  EXPECT_FALSE(made("Concat", {{"axis", 0}})->infer(std::vector{part[0], TensorSpec{DType::i64, {2}}})[0].known);
}

TEST(Known, ListsOfNumbers) {
  const Attributes values{{"a", "2x-1:3 4"}, {"b", ""}, {"c", "none"}, {"d", "1,2"}, {"e", "0.5x2"}};
  EXPECT_EQ(integer_list(values, "a"), (std::vector<Index>{2, -1, 3, 4}));
  EXPECT_FALSE(integer_list(values, "b"));
  EXPECT_EQ(integer_list(values, "c"), std::vector<Index>());
  EXPECT_EQ(real_list(values, "e"), (std::vector<double>{0.5, 2}));
  EXPECT_EQ(message_of([&] { integer_list(values, "d"); }),
            "[operator] d is '1,2'; write integers with x between them, or none for an empty list");
}

TEST(Cost, OnlyWhatIsChosenIsRead) {
  const std::vector<TensorSpec> in{{DType::f32, {1000, 10}}, known_spec(indices({0})), known_spec(indices({3}))};
  EXPECT_EQ(made("Slice")->cost(in, Pass::forward).bytes, 4 * 30 + 4 * 30 + 16);
  const std::vector<TensorSpec> rows{{DType::f32, {1000, 10}}, known_spec(indices({7, 7, 3}))};
  EXPECT_EQ(made("Gather")->cost(rows, Pass::forward).bytes, 4 * 20 + 4 * 30 + 24);
}

TEST(Transpose, CasesHold) { expect_cases_hold("Transpose"); }
TEST(Slice, CasesHold) { expect_cases_hold("Slice"); }
TEST(Pad, CasesHold) { expect_cases_hold("Pad"); }
TEST(Concat, CasesHold) { expect_cases_hold("Concat"); }
TEST(Split, CasesHold) { expect_cases_hold("Split"); }

}  // namespace
}  // namespace d5
