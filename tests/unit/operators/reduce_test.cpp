// SPDX-License-Identifier: Apache-2.0
// Reductions, ArgMax, ArgMin, TopK, CumSum, Einsum. Expected numbers: numpy 2.4, the examples of ONNX's documentation,
// and by hand; gradients: complex steps in numpy.
#include <map>

#include "run_operator.hpp"

namespace d5 {
namespace {

const std::vector<std::string> reductions{"ReduceSum",    "ReduceMean",     "ReduceMax",       "ReduceMin",
                                          "ReduceProd",   "ReduceL1",       "ReduceSumSquare", "ReduceL2",
                                          "ReduceLogSum", "ReduceLogSumExp"};

Tensor axes(const std::vector<int64_t>& list) { return Tensor::from<int64_t>({static_cast<Index>(list.size())}, list); }

TEST(Reduce, Numpy) {
  const std::map<std::string, std::vector<double>> over_0_and_2{
      {"ReduceSum", {0.25, 0.5, 0.75}},
      {"ReduceMean", {0.0625, 0.125, 0.1875}},
      {"ReduceMax", {1, 1.25, 1.5}},
      {"ReduceMin", {-1.25, -1, -0.75}},
      {"ReduceProd", {0.234375, 0, 0.28125}},
      {"ReduceL1", {3.25, 2.5, 3.25}},
      {"ReduceL2", {1.78535710714, 1.6201851746, 1.82002747232}},
      {"ReduceSumSquare", {3.1875, 2.625, 3.3125}},
      {"ReduceLogSum", {-1.38629436112, -0.69314718056, -0.287682072452}},
      {"ReduceLogSumExp", {1.77505190952, 1.81519076886, 1.97537290695}}};
  for (const auto& [op, wanted] : over_0_and_2) {
    SCOPED_TRACE(op);
    expect_near(forward(*made(op), {pattern({2, 3, 2}, 1), axes({-1, 0})}).output(0), {1, 3, 1}, wanted, 1e-11);
    expect_near(forward(*made(op, {{"keepdims", 0}}), {pattern({2, 3, 2}, 1), axes({0, 2})}).output(0), {3}, wanted,
                1e-11);
  }
}

TEST(Reduce, Gradients) {
  const auto gradient = [](const std::string& op, const Tensor& x) {
    Context c = forward(*made(op), {x, axes({1})});
    backward(*made(op), c, doubles({2, 1}, {1, 2}));
    return c.input_gradient(0);
  };
  const Tensor x = pattern({2, 3}, 2);  // 1, -0.5, 1.25 and -0.25, 1.5, 0
  expect_near(gradient("ReduceSum", x), {2, 3}, {1, 1, 1, 2, 2, 2});
  expect_near(gradient("ReduceMean", x), {2, 3}, {1. / 3, 1. / 3, 1. / 3, 2. / 3, 2. / 3, 2. / 3});
  expect_near(gradient("ReduceMax", x), {2, 3}, {0, 0, 1, 0, 2, 0});
  expect_near(gradient("ReduceMin", x), {2, 3}, {0, 1, 0, 2, 0, 0});
  expect_near(gradient("ReduceProd", x), {2, 3}, {-0.625, 1.25, -0.5, 0, 0, -0.75});
  expect_near(gradient("ReduceL1", x), {2, 3}, {1, -1, 1, -2, 2, 0});
  expect_near(gradient("ReduceL2", x), {2, 3},
              {0.596284794, -0.298142397, 0.7453559925, -0.328797974611, 1.97278784766, 0}, 1e-11);
  expect_near(gradient("ReduceSumSquare", x), {2, 3}, {2, -1, 2.5, -1, 6, 0});
  expect_near(gradient("ReduceLogSumExp", x), {2, 3},
              {0.3988583753, 0.0889973331571, 0.512144291543, 0.248798672726, 1.43173750786, 0.319463819418}, 1e-11);
  expect_near(gradient("ReduceLogSum", doubles({2, 3}, {1.25, 0.75, 1.5, 0.5, 1.75, 0.25})), {2, 3},
              {1 / 3.5, 1 / 3.5, 1 / 3.5, 0.8, 0.8, 0.8});
}

TEST(Reduce, TiesShareTheGradient) {
  Context c = forward(*made("ReduceMax"), {doubles({4}, {2, 1, 2, 0})});
  backward(*made("ReduceMax"), c, doubles({1}, {3}));
  expect_near(c.input_gradient(0), {4}, {1.5, 0, 1.5, 0});
  c = forward(*made("ReduceL2"), {doubles({2}, {0, 0})});
  backward(*made("ReduceL2"), c, doubles({1}, {3}));
  expect_near(c.input_gradient(0), {2}, {0, 0});
}

TEST(Reduce, WithoutAxes) {
  const Tensor x = doubles({2, 2}, {-1, 2, -3, 4});
  expect_near(forward(*made("ReduceL1"), {x}).output(0), {1, 1}, {10});
  expect_near(forward(*made("ReduceL1", {{"keepdims", 0}}), {x, axes({})}).output(0), {}, {10});
  expect_near(forward(*made("ReduceL1", {{"noop_with_empty_axes", 1}}), {x}).output(0), {2, 2}, {1, 2, 3, 4});
  expect_near(forward(*made("ReduceMean"), {doubles({}, {5})}).output(0), {}, {5});
}

TEST(Reduce, NothingHasANeutralElement) {
  const auto of_nothing = [](const std::string& op, DType type) {
    return list(forward(*made(op), {Tensor(type, {0, 2}), axes({0})}).output(0));
  };
  using V = std::vector<double>;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(of_nothing("ReduceSum", DType::f64), (V{0, 0}));
  EXPECT_EQ(of_nothing("ReduceProd", DType::f64), (V{1, 1}));
  EXPECT_EQ(of_nothing("ReduceMax", DType::f64), (V{-infinity, -infinity}));
  EXPECT_EQ(of_nothing("ReduceMin", DType::f64), (V{infinity, infinity}));
  EXPECT_EQ(of_nothing("ReduceMax", DType::i8), (V{-128, -128}));
  EXPECT_EQ(of_nothing("ReduceMin", DType::boolean), (V{1, 1}));
  EXPECT_EQ(of_nothing("ReduceLogSumExp", DType::f64), (V{-infinity, -infinity}));
}

TEST(Reduce, IntegersInTheirOwnType) {
  const Tensor x = Tensor::from<int32_t>({4}, {7, -2, INT32_MAX, 1});
  EXPECT_EQ(forward(*made("ReduceSum"), {x}).output(0).values<int32_t>()[0], INT32_MIN + 5);  // wraps around
  EXPECT_EQ(forward(*made("ReduceMax"), {x}).output(0).values<int32_t>()[0], INT32_MAX);
  const Tensor y = Tensor::from<int64_t>({3}, {-3, -4, 0});
  EXPECT_EQ(forward(*made("ReduceMean"), {y}).output(0).values<int64_t>()[0], -2);
  EXPECT_EQ(forward(*made("ReduceL1"), {y}).output(0).values<int64_t>()[0], 7);
  EXPECT_EQ(forward(*made("ReduceL2"), {y}).output(0).values<int64_t>()[0], 5);
  expect_near(forward(*made("ReduceMin"), {Tensor::from<bool>({2}, {true, false})}).output(0), {1}, {0});
}

TEST(Reduce, NanWins) {
  const Tensor x = doubles({3}, {1, std::nan(""), 2});
  EXPECT_TRUE(std::isnan(list(forward(*made("ReduceMax"), {x}).output(0))[0]));
  EXPECT_TRUE(std::isnan(list(forward(*made("ReduceMin"), {x}).output(0))[0]));
}

TEST(Reduce, BadInputsAreNamed) {
  const TensorSpec x{DType::f32, {2, 3}};
  EXPECT_EQ(infer_error("ReduceSum", {}, {x, {DType::i64, {1}}}),
            "[reduce_sum] the value of axes must be known before the run; it is not");
  EXPECT_EQ(infer_error("ReduceMean", {}, {x, known_spec({0, -2})}), "[reduce_mean] axis -2 is given twice");
  EXPECT_EQ(infer_error("ReduceMax", {}, {x, known_spec({2})}),
            "[reduce_max] axis 2 is out of range; a tensor of rank 2 has axes -2 to 1");
  EXPECT_EQ(infer_error("ReduceL2", {}, {{DType::boolean, {2}}}),
            "[reduce_l2] element type bool is not defined by ONNX; legal: f32, f64, f16, bf16, i32, i64, u32, u64");
}

TEST(Reduce, OfAKnownShapeIsKnown) {
  const auto elements = made("ReduceProd")->infer(std::vector{known_spec({8, 3, 5})});
  ASSERT_TRUE(elements[0].known);
  EXPECT_EQ(integers(*elements[0].known), std::vector<Index>{120});
}

TEST(Reduce, CasesHold) {
  for (const std::string& op : reductions) expect_cases_hold(op);
}

TEST(ArgMax, FirstLastAndNan) {
  const Tensor x = doubles({2, 3}, {2, 2, 1, 3, 10, 10});
  expect_near(forward(*made("ArgMax", {{"axis", 1}}), {x}).output(0), {2, 1}, {0, 1});
  expect_near(forward(*made("ArgMax", {{"axis", 1}, {"select_last_index", 1}, {"keepdims", 0}}), {x}).output(0), {2},
              {1, 2});
  expect_near(forward(*made("ArgMin"), {x}).output(0), {1, 3}, {0, 0, 0});
  const double nan = std::nan("");
  const Tensor y = doubles({4}, {1, nan, 5, nan});
  expect_near(forward(*made("ArgMax"), {y}).output(0), {1}, {1});
  expect_near(forward(*made("ArgMin", {{"select_last_index", 1}}), {y}).output(0), {1}, {3});
  EXPECT_EQ(infer_error("ArgMax", {}, {{DType::f32, {0, 3}}}),
            "[arg_max] axis 0 of 0x3 is empty: it has no largest element");
}

TEST(ArgMax, CasesHold) {
  expect_cases_hold("ArgMax");
  expect_cases_hold("ArgMin");
}

TEST(TopK, OnnxDocumentation) {
  const Tensor x = doubles({3, 4}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  Context c = forward(*made("TopK"), {x, axes({3})});
  expect_near(c.output(0), {3, 3}, {3, 2, 1, 7, 6, 5, 11, 10, 9});
  expect_near(c.output(1), {3, 3}, {3, 2, 1, 3, 2, 1, 3, 2, 1});
  backward(*made("TopK"), c, doubles({3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9}));
  expect_near(c.input_gradient(0), {3, 4}, {0, 3, 2, 1, 0, 6, 5, 4, 0, 9, 8, 7});
  c = forward(*made("TopK", {{"axis", 0}, {"largest", 0}}), {x, axes({2})});
  expect_near(c.output(0), {2, 4}, {0, 1, 2, 3, 4, 5, 6, 7});
  expect_near(c.output(1), {2, 4}, {0, 0, 0, 0, 1, 1, 1, 1});
}

TEST(TopK, EqualElementsKeepTheirOrder) {
  const Context c = forward(*made("TopK"), {doubles({5}, {1, 3, 3, 0, 3}), axes({4})});
  expect_near(c.output(1), {4}, {1, 2, 4, 0});
  EXPECT_EQ(infer_error("TopK", {}, {{DType::f32, {2, 3}}, known_spec({4})}),
            "[top_k] K is 4; 0 to 3 are legal, axis 1 of 2x3");
}

TEST(TopK, CasesHold) { expect_cases_hold("TopK"); }

TEST(CumSum, OnnxDocumentation) {
  const auto run = [](int64_t exclusive, int64_t reverse) {
    return forward(*made("CumSum", {{"exclusive", exclusive}, {"reverse", reverse}}),
                   {doubles({3}, {1, 2, 3}), Tensor::from<int32_t>({}, {0})})
        .output(0);
  };
  expect_near(run(0, 0), {3}, {1, 3, 6});
  expect_near(run(1, 0), {3}, {0, 1, 3});
  expect_near(run(0, 1), {3}, {6, 5, 3});
  expect_near(run(1, 1), {3}, {5, 3, 0});
  Context c = forward(*made("CumSum", {{"exclusive", 1}}), {doubles({3}, {1, 2, 3}), axes({-1})});
  backward(*made("CumSum", {{"exclusive", 1}}), c, doubles({3}, {1, 10, 100}));
  expect_near(c.input_gradient(0), {3}, {110, 100, 0});
}

TEST(CumSum, CasesHold) { expect_cases_hold("CumSum"); }

TEST(Einsum, Numpy) {
  const auto run = [](const char* equation, std::vector<Tensor> operands) {
    return forward(*made("Einsum", {{"equation", equation}}), std::move(operands)).output(0);
  };
  const Tensor a = pattern({2, 3}, 1), b = pattern({3, 2}, 2);
  expect_near(run("ij,jk", {a, b}), {2, 2}, {-0.5, -0.125, 1.375, -0.5});
  expect_near(run(" ij , ji -> ", {a, b}), {}, {-1});
  expect_near(run("ba", {a}), {3, 2}, {-0.25, 0.25, 1, 1.5, -1, -0.5});  // alphabetical: the transpose
  expect_near(run("ii->i", {pattern({3, 3}, 1)}), {3}, {-0.25, 1.5, 0});
  expect_near(run("...ij,...jk->...ki", {pattern({2, 1, 2, 2}, 1), pattern({2, 2, 1}, 2)}), {2, 2, 1, 2},
              {-0.75, -1.125, -0.5625, -1.3125, 1.75, 1.375, 2, 1.25});
  const Tensor integers = Tensor::from<int32_t>({3}, {1, 2, 3});
  expect_near(run("i,i,i->", {integers, integers, integers}), {}, {36});
}

TEST(Einsum, GradientOfADiagonalLeavesOutTheRest) {
  const auto op = made("Einsum", {{"equation", "ii->i"}});
  Context c = forward(*op, {pattern({2, 2}, 1)});
  backward(*op, c, doubles({2}, {3, 4}));
  expect_near(c.input_gradient(0), {2, 2}, {3, 0, 0, 4});
}

TEST(Einsum, BadEquationsAreNamed) {
  const TensorSpec a{DType::f32, {2, 3}};
  const auto error = [&](const char* equation, const std::vector<TensorSpec>& in) {
    return infer_error("Einsum", {{"equation", equation}}, in);
  };
  EXPECT_EQ(error("ij,jk->ik", {a}), "[einsum] equation 'ij,jk->ik': 2 operands are named and 1 given");
  EXPECT_EQ(error("i->i", {a}), "[einsum] equation 'i->i': operand 0 is 2x3, of rank 2; it has 1 letters");
  EXPECT_EQ(error("ij->ik", {a}), "[einsum] equation 'ij->ik': no operand has the 'k' of the result");
  EXPECT_EQ(error("ij->ii", {a}), "[einsum] equation 'ij->ii': the result has 'i' twice");
  EXPECT_EQ(error("i1->i", {a}), "[einsum] equation 'i1->i': '1' is no letter");
  EXPECT_EQ(error("ij,ik->jk", {a, {DType::f32, {3, 4}}}),
            "[einsum] equation 'ij,ik->jk': axis 0 of operand 1 (3x4) has size 3; the same axis had 2 before");
}

TEST(Einsum, RoundingCountsTheSums) {
  const std::vector<TensorSpec> in{{DType::f32, {2, 5, 3, 7}}, {DType::f32, {1, 7, 4}}};
  const auto op = made("Einsum", {{"equation", "...ij,...jk->...ik"}});
  EXPECT_EQ(op->rounding(in, Pass::forward, 0).terms, 7);
  EXPECT_EQ(op->rounding(in, Pass::backward, 0).terms, 4);
  EXPECT_EQ(op->rounding(in, Pass::backward, 1).terms, 2 * 5 * 3);  // broadcast over both leading axes
}

TEST(Einsum, CasesHold) { expect_cases_hold("Einsum"); }

}  // namespace
}  // namespace d5
