// SPDX-License-Identifier: Apache-2.0
#include "d5/networks/loss.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "d5/networks/builder.hpp"
#include "tiny.hpp"

namespace d5 {
namespace {

using Role = Executable::Role;

// A network that gives its input; the loss of these scores and targets.
template <class T>
double loss_of(const std::string& kind, const Tensor& scores, const std::vector<T>& target) {
  Builder b("net", scores.shape()[0], DType::f64);
  std::vector<Index> sizes(scores.shape().begin() + 1, scores.shape().end());
  const Graph graph = with_loss(b.finish({{"y", b.node("Identity", "y", {b.input("x", sizes)})}}), kind);
  EXPECT_THAT(graph.outputs, testing::ElementsAre(loss_name));
  ParameterSet set;
  const auto executable = open_backend("reference")->compile(graph, set, {});
  const GraphInput& input = graph.inputs.back();
  EXPECT_EQ(input.name, target_name);
  EXPECT_EQ(input.symbols[0], "N");
  EXPECT_FALSE(input.differentiable);
  executable->write(Role::value, "x", scores);
  executable->write(Role::value, target_name, Tensor::from<T>(input.spec.shape, target));
  executable->forward({});
  const Tensor loss = executable->read(Role::value, loss_name);
  EXPECT_EQ(loss.shape(), Shape{});
  return loss.values<double>()[0];
}

// -log softmax([1, 2, 3])[2] = 0.40760596444, [0] = 2.40760596444 (scipy.special.log_softmax).
TEST(Loss, CrossEntropy) {
  const Tensor scores = Tensor::from<double>({2, 3}, {1, 2, 3, 1, 2, 3});
  EXPECT_NEAR(loss_of<int64_t>("cross-entropy", scores, {2, 0}), (0.40760596444 + 2.40760596444) / 2, 1e-10);
  // The same two as pixels of one image and as words of one sentence.
  const Tensor pixels = Tensor::from<double>({1, 3, 2}, {1, 1, 2, 2, 3, 3});
  EXPECT_NEAR(loss_of<int64_t>("cross-entropy", pixels, {2, 0}), (0.40760596444 + 2.40760596444) / 2, 1e-10);
  EXPECT_NEAR(loss_of<int64_t>("token-cross-entropy", scores.reshaped({1, 2, 3}), {2, 0}),
              (0.40760596444 + 2.40760596444) / 2, 1e-10);
}

TEST(Loss, MeanSquaredError) {
  EXPECT_NEAR(loss_of<double>("mean-squared-error", Tensor::from<double>({2, 2}, {1, 2, 3, 4}), {1, 0, 3, 1}), 13.0 / 4,
              1e-12);
}

// A logit of 0 is a half: log 2 whatever the target. A large one must not overflow: log(1 + e^800) = 800.
TEST(Loss, BinaryCrossEntropy) {
  EXPECT_NEAR(loss_of<double>("binary-cross-entropy", Tensor::from<double>({2, 1}, {0, 0}), {0, 1}), std::log(2),
              1e-12);
  EXPECT_NEAR(loss_of<double>("binary-cross-entropy", Tensor::from<double>({2, 1}, {800, -800}), {0, 0}), 400, 1e-9);
  EXPECT_NEAR(loss_of<double>("binary-cross-entropy", Tensor::from<double>({1, 1}, {1.5}), {1}),
              -std::log(1 / (1 + std::exp(-1.5))), 1e-12);
}

// Scores that are all the same give log(classes) each: the second classifier counts 0.4.
TEST(Loss, AuxiliaryClassifiersCountLess) {
  Builder b("net", 2, DType::f64);
  const Edge x = b.input("x", {5});
  const Graph graph =
      with_loss(b.finish({{"scores", b.node("Identity", "a", {x})}, {"auxiliary", b.node("Identity", "b", {x})}}),
                "cross-entropy");
  ParameterSet set;
  const auto executable = open_backend("reference")->compile(graph, set, {});
  executable->write(Role::value, "x", Tensor::from<double>({2, 5}, std::vector<double>(10, 3)));
  executable->write(Role::value, target_name, Tensor::from<int64_t>({2}, {1, 4}));
  executable->forward({});
  EXPECT_NEAR(executable->read(Role::value, loss_name).values<double>()[0], 1.4 * std::log(5), 1e-12);
}

TEST(Loss, OutputsAndOperators) {
  const Graph net = build_network("inception-v3", {{"auxiliary", true}}, 2, DType::f32, Mode::training);
  const Graph bare = with_loss(net, "cross-entropy"), full = with_loss(net, "cross-entropy", {.keep_scores = true});
  EXPECT_EQ(bare.outputs[0], loss_name);
  EXPECT_EQ(bare.outputs.size() + 2, full.outputs.size());
  EXPECT_EQ(full.outputs[1], "scores");
  EXPECT_EQ(full.outputs[2], "auxiliary_scores");
  EXPECT_EQ(infer_specs(bare).at(target_name).shape, (Shape{2}));
  EXPECT_THAT([&] { with_loss(net, "hinge"); },
              testing::ThrowsMessage<UsageError>(testing::HasSubstr("mean-squared-error")));
  // Each network has the loss that fits it, and shapes agree.
  for (const std::string& name : registry_names(networks::kind)) {
    const std::string loss = registered<networks>(name).loss;
    if (loss.empty()) continue;
    const Graph graph = with_loss(build_network(name, {}, 2, DType::f32, Mode::training), loss);
    EXPECT_EQ(infer_specs(graph).at(loss_name).shape, Shape{}) << name;
  }
}

}  // namespace
}  // namespace d5
