// SPDX-License-Identifier: Apache-2.0
// Expected losses: the reference evaluator of onnx 1.23 and examples in ONNX's text. Gradients: complex steps in numpy.
// The rest by hand.
#include "run_operator.hpp"

namespace d5 {
namespace {

Tensor labels(Shape shape, const std::vector<int64_t>& values) {
  return Tensor::from<int64_t>(std::move(shape), values);
}
Tensor loss(const std::string& op, std::vector<Tensor> in, const Attributes& attributes = {}) {
  return forward(*made(op, attributes), std::move(in)).output(0);
}

const std::vector<int64_t> three{2, 0, 3};
const std::vector<double> weights{0.2, 0.3, 0.6, 0.1};

TEST(LogSoftmax, EveryAxis) {
  const auto run = [](int64_t axis) {
    return forward(*made("LogSoftmax", {{"axis", axis}}), {pattern({2, 3, 2}, 2)}).output(0);
  };
  const double a = -0.0788897342925, b = -1.13687100611, c = -2.57888973429, d = -0.386871006115;
  expect_near(run(0), {2, 3, 2}, {a, b, a, b, a, b, c, d, c, d, c, d}, 1e-11);
  const double e = -1.369338084406, f = e + 0.25, g = e + 0.5;
  expect_near(run(1), {2, 3, 2}, {e, e, f, f, g, g, e, e, f, f, g, g}, 1e-11);
  const double h = -0.201413277983, i = -0.160224150438;
  expect_near(run(-1), {2, 3, 2}, {h, h - 1.5, h, h - 1.5, h, h - 1.5, i - 1.75, i, i - 1.75, i, i - 1.75, i}, 1e-11);
  expect_near(forward(*made("LogSoftmax"), {doubles({1, 2}, {10000, 10001})}).output(0), {1, 2},
              {-1.31326168751822, -0.313261687518223});
}

TEST(SoftmaxCrossEntropyLoss, ReductionsWeightsAndIgnoredLabels) {
  struct Row {
    const char* reduction;
    bool weighted, ignoring;
    std::vector<double> wanted;
  };
  const std::vector<Row> rows{{"none", false, false, {2.63880008746, 0.513799017158, 1.38880008746}},
                              {"none", false, true, {2.63880008746, 0, 1.38880008746}},
                              {"none", true, false, {1.58328005248, 0.102759803432, 0.138880008746}},
                              {"mean", false, false, {1.51379973069}},
                              {"mean", false, true, {2.01380008746}},
                              {"mean", true, false, {2.0276887385}},
                              {"mean", true, true, {2.46022865889}},
                              {"sum", false, false, {4.54139919208}},
                              {"sum", true, true, {1.72216006122}}};
  for (const Row& row : rows) {
    Attributes attributes{{"reduction", row.reduction}};
    if (row.ignoring) attributes.set("ignore_index", 0);
    std::vector<Tensor> in{pattern({3, 4}, 1), labels({3}, three)};
    if (row.weighted) in.push_back(doubles({4}, weights));
    SCOPED_TRACE(row.reduction);
    expect_near(loss("SoftmaxCrossEntropyLoss", in, attributes), row.wanted.size() == 3 ? Shape{3} : Shape{},
                row.wanted, 1e-10);
  }
}

TEST(SoftmaxCrossEntropyLoss, SecondOutputAndGradients) {
  const auto op = made("SoftmaxCrossEntropyLoss", {{"ignore_index", 0}});
  Context c = forward(*op, {pattern({3, 4}, 1), labels({3}, three), doubles({4}, weights)});
  const double a = -1.88880008746, b = -0.513799017158;
  expect_near(c.output(1), {3, 4},
              {a, a + 1.25, a - 0.75, a + 0.5, b, b - 2, b - 0.75, b - 2.75, a, a + 1.25, a - 0.75, a + 0.5}, 1e-10);
  c.output_gradients = {doubles({}, {1})};
  c.input_gradients = {Tensor(DType::f64, {3, 4})};
  op->backward(c);
  expect_near(c.input_gradient(0), {3, 4},
              {0.129645591937, 0.452507578784, -0.795902615801, 0.21374944508, 0, 0, 0, 0, 0.0216075986562,
               0.0754179297974, 0.0102067068903, -0.107232235344},
              1e-11);
  // A gradient of the second output is that of LogSoftmax, added.
  const auto first = list(c.input_gradient(0));
  c.output_gradients = {doubles({}, {1}), pattern({3, 4}, 5)};
  op->backward(c);
  const auto both = list(c.input_gradient(0));
  Context plain = forward(*made("LogSoftmax"), {pattern({3, 4}, 1)});
  backward(*made("LogSoftmax"), plain, pattern({3, 4}, 5));
  const auto second = list(plain.input_gradient(0));
  for (size_t i = 0; i < both.size(); ++i) EXPECT_NEAR(both[i], first[i] + second[i], 1e-13);
}

TEST(SoftmaxCrossEntropyLoss, MoreAxes) {
  const std::vector<Tensor> in{pattern({2, 3, 2, 2}, 2), labels({2, 2, 2}, {0, 1, 2, 1, 1, 1, 0, 2}),
                               doubles({3}, {0.5, 1, 2})};
  expect_near(loss("SoftmaxCrossEntropyLoss", in, {{"reduction", "none"}}), {2, 2, 2},
              {0.506549076084, 1.18026967064, 4.81285688597, 1.18026967064, 1.18026967064, 0.513098152168,
               0.840134835321, 4.81285688597},
              1e-10);
  expect_near(loss("SoftmaxCrossEntropyLoss", in, {{"ignore_index", 1}}), {}, {2.19447953667}, 1e-10);
  expect_near(loss("NegativeLogLikelihoodLoss", in, {{"ignore_index", 1}}), {}, {0.75}, 1e-12);
}

TEST(NegativeLogLikelihoodLoss, ExamplesOfOnnx) {
  const std::vector<Tensor> in{doubles({2, 3, 2}, {1, 2, 2, 2, 3, 2, 0, 1, 2, 2, 1, 2}), labels({2, 2}, {2, 1, 0, 2})};
  expect_near(loss("NegativeLogLikelihoodLoss", in, {{"reduction", "none"}}), {2, 2}, {-3, -2, 0, -2});
  const std::vector<Tensor> weighted{in[0], in[1], doubles({3}, {0.2, 0.3, 0.1})};
  expect_near(loss("NegativeLogLikelihoodLoss", weighted, {{"reduction", "sum"}}), {}, {-1.1});
  expect_near(loss("NegativeLogLikelihoodLoss", weighted), {}, {-1.1 / 0.7});
  Context c = forward(*made("NegativeLogLikelihoodLoss"), weighted);
  c.output_gradients = {doubles({}, {7})};
  c.input_gradients = {Tensor(DType::f64, {2, 3, 2})};
  made("NegativeLogLikelihoodLoss")->backward(c);
  expect_near(c.input_gradient(0), {2, 3, 2}, {0, 0, 0, -3, -1, 0, -2, 0, 0, 0, 0, -1});
}

TEST(CrossEntropy, OfProbabilities) {
  const std::vector<Tensor> in{doubles({2, 3}, {0.5, 0.25, 0.25, 0.125, 0.75, 0}), labels({2}, {1, 0})};
  Context c = forward(*made("CrossEntropy"), in);
  expect_near(c.output(0), {}, {2.5 * std::log(2.0)});
  c.output_gradients = {doubles({}, {2})};
  c.input_gradients = {Tensor(DType::f64, {2, 3})};
  made("CrossEntropy")->backward(c);
  expect_near(c.input_gradient(0), {2, 3}, {0, -4, 0, -8, 0, 0});
}

TEST(ClassLosses, BadInputsAreNamed) {
  EXPECT_EQ(message_of([] {
              loss("NegativeLogLikelihoodLoss", {pattern({2, 3}, 1), labels({2}, {1, 3})});
            }),
            "[negative_log_likelihood_loss] label 1 is 3; 0 to 2 are legal");
  EXPECT_EQ(message_of([] {
              loss("CrossEntropy", {pattern({2, 3}, 1), labels({2}, {-1, 0})}, {{"ignore_index", -100}});
            }),
            "[cross_entropy] label 0 is -1; 0 to 2 and -100 (ignored) are legal");
  EXPECT_EQ(infer_error("SoftmaxCrossEntropyLoss", {}, {{DType::f32, {2, 3, 4}}, {DType::i64, {2}}}),
            "[softmax_cross_entropy_loss] labels are 2; 2x4 is wanted for scores of 2x3x4");
  EXPECT_EQ(infer_error("SoftmaxCrossEntropyLoss", {}, {{DType::f32, {2, 3}}, {DType::i64, {2}}, {DType::f32, {2}}}),
            "[softmax_cross_entropy_loss] weights are 2; 3 are wanted, one for each class");
  EXPECT_EQ(message_of([] {
              made("MeanSquaredError", {{"reduction", "max"}});
            }),
            "[mean_squared_error] reduction is 'max'; legal: none, mean, sum");
  EXPECT_EQ(infer_error("MeanSquaredError", {}, {{DType::f32, {2}}, {DType::f32, {3}}}),
            "[mean_squared_error] predictions are 2 and targets 3; one shape is wanted");
}

TEST(ClassLosses, NothingButIgnoredLabelsHasNoMean) {
  const std::vector<Tensor> in{pattern({2, 3}, 1), labels({2}, {1, 1})};
  EXPECT_TRUE(std::isnan(list(loss("NegativeLogLikelihoodLoss", in, {{"ignore_index", 1}}))[0]));
  EXPECT_EQ(list(loss("NegativeLogLikelihoodLoss", in, {{"ignore_index", 1}, {"reduction", "sum"}}))[0], 0);
}

TEST(MeanSquaredError, ReductionsAndGradients) {
  const std::vector<Tensor> in{doubles({3}, {1, 2, -1}), doubles({3}, {3, 2, 0.5})};
  expect_near(loss("MeanSquaredError", in, {{"reduction", "none"}}), {3}, {4, 0, 2.25});
  expect_near(loss("MeanSquaredError", in, {{"reduction", "sum"}}), {}, {6.25});
  Context c = forward(*made("MeanSquaredError"), in);
  expect_near(c.output(0), {}, {6.25 / 3});
  backward(*made("MeanSquaredError"), c, doubles({}, {3}));
  expect_near(c.input_gradient(0), {3}, {-4, 0, -3});
  expect_near(c.input_gradient(1), {3}, {4, 0, 3});
}

TEST(BinaryCrossEntropy, ValuesAndTheEnds) {
  const std::vector<Tensor> in{doubles({3}, {0.25, 0.5, 0.9}), doubles({3}, {1, 0.25, 0})};
  expect_near(loss("BinaryCrossEntropy", in, {{"reduction", "none"}}), {3},
              {1.38629436111989, 0.693147180559945, 2.30258509299405});
  Context c = forward(*made("BinaryCrossEntropy", {{"reduction", "sum"}}), in);
  backward(*made("BinaryCrossEntropy", {{"reduction", "sum"}}), c, doubles({}, {1}));
  expect_near(c.input_gradient(0), {3}, {-4, 1, 10});
  expect_near(c.input_gradient(1), {3}, {std::log(3.0), 0, std::log(1.0 / 9)});
  expect_near(loss("BinaryCrossEntropy", {doubles({3}, {0, 1, 1}), doubles({3}, {1, 1, 0})}, {{"reduction", "none"}}),
              {3}, {100, 0, 100});
}

}  // namespace
}  // namespace d5
