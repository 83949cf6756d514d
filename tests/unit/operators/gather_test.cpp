// SPDX-License-Identifier: Apache-2.0
// Gather, GatherElements, GatherND. Expected numbers: the examples of ONNX's documentation; gradients by hand.
#include "run_operator.hpp"

namespace d5 {
namespace {

TEST(Gather, OnnxDocumentation) {
  const Tensor rows = Tensor::from<int64_t>({2, 2}, {0, 1, 1, 2});
  expect_near(forward(*made("Gather"), {doubles({3, 2}, {1.0, 1.2, 2.3, 3.4, 4.5, 5.7}), rows}).output(0), {2, 2, 2},
              {1.0, 1.2, 2.3, 3.4, 2.3, 3.4, 4.5, 5.7});
  const Tensor columns = Tensor::from<int32_t>({1, 2}, {0, 2});
  expect_near(
      forward(*made("Gather", {{"axis", 1}}), {doubles({3, 3}, {1.0, 1.2, 1.9, 2.3, 3.4, 3.9, 4.5, 5.7, 5.9}), columns})
          .output(0),
      {3, 1, 2}, {1.0, 1.9, 2.3, 3.9, 4.5, 5.9});
}

TEST(Gather, GradientAddsUpRepeatedRows) {
  Context c = forward(*made("Gather"), {pattern({3, 2}, 1), Tensor::from<int64_t>({3}, {2, 0, -1})});
  backward(*made("Gather"), c, doubles({3, 2}, {1, 2, 10, 20, 100, 200}));
  expect_near(c.input_gradient(0), {3, 2}, {10, 20, 0, 0, 101, 202});
}

TEST(Gather, AnIndexOutOfRangeIsNamed) {
  const auto gather = [](int64_t index) {
    forward(*made("Gather"), {pattern({3, 2}, 1), Tensor::from<int64_t>({2}, {0, index})});
  };
  EXPECT_EQ(message_of([&] { gather(3); }),
            "[gather] index 3 at element 1 of the indices is out of range; an axis of 3 has -3 to 2");
  EXPECT_EQ(message_of([&] { gather(-4); }),
            "[gather] index -4 at element 1 of the indices is out of range; an axis of 3 has -3 to 2");
  EXPECT_EQ(infer_error("Gather", {}, {{DType::f32, {3}}, {DType::f32, {2}}}),
            "[gather] indices is of type f32; legal: i32, i64");
  EXPECT_EQ(infer_error("Gather", {{"axis", 1}}, {{DType::f32, {3}}, {DType::i64, {2}}}),
            "[gather] axis 1 is out of range; a tensor of rank 1 has axes -1 to 0");
}

TEST(Gather, OfAKnownShapeIsKnown) {
  const auto size = made("Gather")->infer(std::vector{known_spec({8, 3, 56, 28}), known_spec({-1})});
  ASSERT_TRUE(size[0].known);
  EXPECT_EQ(integers(*size[0].known), std::vector<Index>{28});
}

TEST(GatherElements, OnnxDocumentation) {
  const Tensor index = Tensor::from<int64_t>({2, 2}, {0, 0, 1, 0});
  expect_near(forward(*made("GatherElements", {{"axis", 1}}), {doubles({2, 2}, {1, 2, 3, 4}), index}).output(0), {2, 2},
              {1, 1, 4, 3});
  const Tensor x = doubles({3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  expect_near(forward(*made("GatherElements"), {x, Tensor::from<int64_t>({2, 3}, {1, 2, 0, 2, 0, 0})}).output(0),
              {2, 3}, {4, 8, 3, 7, 2, 3});
  Context c = forward(*made("GatherElements"), {x, Tensor::from<int64_t>({2, 3}, {-1, -2, 0, -1, -2, 0})});
  expect_near(c.output(0), {2, 3}, {7, 5, 3, 7, 5, 3});
  backward(*made("GatherElements"), c, doubles({2, 3}, {1, 2, 3, 10, 20, 30}));
  expect_near(c.input_gradient(0), {3, 3}, {0, 0, 33, 0, 22, 0, 11, 0, 0});
  EXPECT_EQ(infer_error("GatherElements", {}, {{DType::f32, {2, 3}}, {DType::i64, {5, 4}}}),
            "[gather_elements] data are 2x3 and indices 5x4: one rank is wanted, and indices no larger than data but "
            "along axis 0");
}

TEST(GatherND, OnnxDocumentation) {
  const Tensor x = doubles({2, 2}, {0, 1, 2, 3});
  expect_near(forward(*made("GatherND"), {x, Tensor::from<int64_t>({2, 2}, {0, 0, 1, 1})}).output(0), {2}, {0, 3});
  expect_near(forward(*made("GatherND"), {x, Tensor::from<int64_t>({2, 1}, {1, 0})}).output(0), {2, 2}, {2, 3, 0, 1});
  const Tensor cube = doubles({2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
  expect_near(forward(*made("GatherND"), {cube, Tensor::from<int64_t>({2, 1, 2}, {0, 1, 1, 0})}).output(0), {2, 1, 2},
              {2, 3, 4, 5});
  const Tensor rows = Tensor::from<int64_t>({2, 1}, {1, 0});
  Context c = forward(*made("GatherND", {{"batch_dims", 1}}), {cube, rows});
  expect_near(c.output(0), {2, 2}, {2, 3, 4, 5});
  backward(*made("GatherND", {{"batch_dims", 1}}), c, doubles({2, 2}, {1, 2, 3, 4}));
  expect_near(c.input_gradient(0), {2, 2, 2}, {0, 0, 1, 2, 3, 4, 0, 0});
}

TEST(GatherND, BadInputsAreNamed) {
  EXPECT_EQ(infer_error("GatherND", {}, {{DType::f32, {2, 3}}, {DType::i64, {4, 3}}}),
            "[gather_nd] indices are 4x3: tuples of 3; 1 to 2 coordinates are legal for data of 2x3");
  EXPECT_EQ(infer_error("GatherND", {{"batch_dims", 1}}, {{DType::f32, {2, 3}}, {DType::i64, {4, 1}}}),
            "[gather_nd] data are 2x3 and indices 4x1: the first 1 sizes must agree");
  EXPECT_EQ(message_of([] {
              forward(*made("GatherND"), {pattern({2, 3}, 1), Tensor::from<int64_t>({1, 2}, {1, 3})});
            }),
            "[gather_nd] index 3 at element 1 of the indices is out of range; an axis of 3 has -3 to 2");
}

TEST(Gather, CasesHold) { expect_cases_hold("Gather"); }
TEST(GatherElements, CasesHold) { expect_cases_hold("GatherElements"); }
TEST(GatherND, CasesHold) { expect_cases_hold("GatherND"); }

}  // namespace
}  // namespace d5
