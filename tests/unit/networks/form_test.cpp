// SPDX-License-Identifier: Apache-2.0
#include "d5/networks/form.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "d5/networks/builder.hpp"
#include "d5/networks/initialise.hpp"
#include "d5/networks/samples.hpp"
#include "tiny.hpp"

namespace d5 {
namespace {

using Role = Executable::Role;

std::map<std::string, Tensor> run(const Graph& graph, const std::map<std::string, Tensor>& values) {
  ParameterSet set;
  const auto executable = open_backend("reference")->compile(graph, set, {});
  for (const GraphInput& input : graph.inputs) executable->write(Role::value, input.name, values.at(input.name));
  executable->forward({});
  std::map<std::string, Tensor> results;
  for (const std::string& name : graph.outputs) results[name] = executable->read(Role::value, name);
  return results;
}

std::map<std::string, Tensor> all_values(const Graph& graph) {
  auto values = initial_values(graph, 3);
  values.merge(sample_inputs(graph, 3));
  return values;
}

size_t count(const Graph& graph, const std::string& op) {
  return static_cast<size_t>(std::ranges::count(graph.nodes, op, &Node::op));
}

TEST(Form, TrainingDropsAndFollowsStatistics) {
  Builder b("net", 2, DType::f64);
  Edge x = b.batch_norm("bn", b.input("x", {3, 4}), {.momentum = 0.75});
  x = b.dropout("drop", b.relu("relu", x), 0.5);
  const Graph graph = b.finish({{"y", x}});
  EXPECT_EQ(running_updates(graph).at("bn.running_mean"), "bn.running_mean.next");
  EXPECT_EQ(running_updates(graph).at("bn.running_var"), "bn.running_var.next");

  auto values = all_values(graph);
  // Channel 1 is 0, 1, ..., 7: mean 3.5, variance 5.25 (numpy.var). The running ones start at 0 and 1.
  for (Index n = 0; n < 2; ++n)
    for (Index i = 0; i < 4; ++i) values["x"].values<double>()[n * 12 + 4 + i] = static_cast<double>(n * 4 + i);
  const auto results = run(graph, values);
  EXPECT_DOUBLE_EQ(results.at("bn.running_mean.next").values<double>()[1], 0.25 * 3.5);
  EXPECT_DOUBLE_EQ(results.at("bn.running_var.next").values<double>()[1], 0.75 + 0.25 * 5.25);
  const auto y = results.at("y").values<double>();
  EXPECT_GT(std::ranges::count(y, 0.0), 12);  // half by relu, half of the rest by dropout
}

TEST(Form, InferenceHasNeither) {
  const Graph trained = build_network("tiramisu", tiny_networks().at("tiramisu"), 2, DType::f64, Mode::training);
  const Graph used = build_network("tiramisu", tiny_networks().at("tiramisu"), 2, DType::f64, Mode::inference);
  EXPECT_GT(count(trained, "Dropout"), 5u);
  EXPECT_EQ(count(used, "Dropout"), 0u);
  EXPECT_THAT(used.outputs, testing::ElementsAre("scores"));
  EXPECT_FALSE(used.constants.contains("true"));
  EXPECT_TRUE(running_updates(used).empty());
  EXPECT_EQ(trained.inputs.size(), used.inputs.size());
  for (const Node& node : used.nodes) EXPECT_FALSE(node.attributes.has("training_mode"));
}

// Where nothing is dropped and the running statistics are those of the batch, both forms compute the same.
TEST(Form, WhatIsLearnedInOneIsUsedInTheOther) {
  Attributes tiny = tiny_networks().at("mobilenet-v2");
  tiny.set("dropout", 0.0);
  Graph trained = build_network("mobilenet-v2", tiny, 2, DType::f64, Mode::training);
  for (Node& node : trained.nodes)
    if (node.op == "BatchNormalization") node.attributes.set("momentum", 0.0);
  auto values = all_values(trained);
  const auto first = run(trained, values);
  for (const auto& [parameter, output] : running_updates(trained)) values[parameter] = first.at(output);
  const auto second = run(inference_form(trained), values);
  for (Index i = 0; i < second.at("scores").elements(); ++i)
    EXPECT_NEAR(second.at("scores").values<double>()[i], first.at("scores").values<double>()[i], 1e-9);
}

TEST(Form, ThereAndBack) {
  const Graph trained = build_network("resnet-20", tiny_networks().at("resnet-20"), 2, DType::f32, Mode::training);
  const Graph again = training_form(inference_form(trained));
  EXPECT_EQ(again.outputs, trained.outputs);
  ASSERT_EQ(again.nodes.size(), trained.nodes.size());
  for (size_t i = 0; i < again.nodes.size(); ++i) {
    EXPECT_EQ(again.nodes[i].outputs, trained.nodes[i].outputs);
    EXPECT_EQ(again.nodes[i].attributes, trained.nodes[i].attributes);
  }
  EXPECT_EQ(training_form(trained).outputs, trained.outputs);  // a second time changes nothing
}

TEST(Form, DropoutThatIsAnOutput) {
  Builder b("net", 2, DType::f32);
  const Graph graph = inference_form(b.finish({{"y", b.dropout("drop", b.relu("relu", b.input("x", {3})), 0.5)}}));
  EXPECT_THAT(graph.outputs, testing::ElementsAre("y"));
  EXPECT_EQ(graph.nodes.back().op, "Identity");
  EXPECT_EQ(infer_specs(graph).at("y").shape, (Shape{2, 3}));
}

// ONNX's Attention and its products are the same function.
TEST(Form, AttentionAsProducts) {
  for (const char* name : {"transformer-encoder", "transformer-decoder", "vit"}) {
    Attributes tiny = tiny_networks().at(name);
    const Graph fused = build_network(name, tiny, 2, DType::f64, Mode::inference);
    tiny.set("attention", "products");
    const Graph products = build_network(name, tiny, 2, DType::f64, Mode::inference);
    EXPECT_EQ(count(products, "Attention"), 0u);
    const auto values = all_values(fused);
    const Tensor a = run(fused, values).at("scores"), b = run(products, values).at("scores");
    double largest = 0;
    for (Index i = 0; i < a.elements(); ++i) {
      largest = std::max(largest, std::abs(a.values<double>()[i]));
      EXPECT_NEAR(a.values<double>()[i], b.values<double>()[i], 1e-12) << name;
    }
    EXPECT_GT(largest, 1e-3) << name;
  }
}

}  // namespace
}  // namespace d5
