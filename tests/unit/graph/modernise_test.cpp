// SPDX-License-Identifier: Apache-2.0
// Operators of old opsets: after modernising they mean what they meant. Numbers by hand or from numpy.
#include "d5/graph/modernise.hpp"

#include <gmock/gmock.h>

#include <cmath>

#include "d5/graph/onnx/read.hpp"
#include "tests/unit/graph/graphs.hpp"

namespace d5 {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<GraphValue> run_old(const std::string& op, int64_t opset, const std::vector<Tensor>& inputs,
                                Attributes attributes, size_t outputs = 1) {
  return run(modernise(one_node(op, opset, inputs, std::move(attributes), outputs)), inputs);
}

const Tensor six = floats({2, 3}, {-2, -1, 0, 1, 2, 3});

TEST(Modernise, AttributesBecomeInputs) {
  expect_near(run_old("Clip", 6, {six}, {{"min", -1.0}, {"max", 1.5}})[0].tensor, {2, 3}, {-1, -1, 0, 1, 1.5, 1.5}, 0);
  expect_near(run_old("Squeeze", 11, {six.reshaped({2, 1, 3})}, {{"axes", std::vector<int64_t>{1}}})[0].tensor, {2, 3},
              {-2, -1, 0, 1, 2, 3}, 0);
  expect_near(run_old("ReduceSum", 11, {six}, {{"axes", std::vector<int64_t>{1}}, {"keepdims", int64_t{0}}})[0].tensor,
              {2}, {-3, 6}, 0);
  expect_near(run_old("ReduceMax", 13, {six}, {{"axes", std::vector<int64_t>{0}}})[0].tensor, {1, 3}, {1, 2, 3}, 0);
  expect_near(run_old("Slice", 9, {six},
                      {{"starts", std::vector<int64_t>{1}},
                       {"ends", std::vector<int64_t>{9}},
                       {"axes", std::vector<int64_t>{1}}})[0]
                  .tensor,
              {2, 2}, {-1, 0, 2, 3}, 0);
  expect_near(run_old("Pad", 2, {six}, {{"pads", std::vector<int64_t>{0, 1, 0, 0}}, {"value", 7.0}})[0].tensor, {2, 4},
              {7, -2, -1, 0, 7, 1, 2, 3}, 0);
  const auto top = run_old("TopK", 1, {six}, {{"k", int64_t{2}}}, 2);
  expect_near(top[0].tensor, {2, 2}, {0, -1, 3, 2}, 0);
  expect_near(top[1].tensor, {2, 2}, {2, 1, 2, 1}, 0);
  expect_near(run_old("Reshape", 1, {six}, {{"shape", std::vector<int64_t>{3, 2}}})[0].tensor, {3, 2},
              {-2, -1, 0, 1, 2, 3}, 0);
}

TEST(Modernise, SplitWithoutSizes) {
  for (const int64_t opset : {11, 13}) {
    const auto parts = run_old("Split", opset, {six.reshaped({3, 2})}, {{"axis", int64_t{0}}}, 3);
    expect_near(parts[1].tensor, {1, 2}, {0, 1}, 0);
  }
  const auto sizes = run_old("Split", 11, {six}, {{"axis", int64_t{1}}, {"split", std::vector<int64_t>{1, 2}}}, 2);
  expect_near(sizes[1].tensor, {2, 2}, {-1, 0, 2, 3}, 0);
}

// Up to opset 12 all axes from `axis` on were one: exp(x) / sum over six values, not over three.
TEST(Modernise, SoftmaxOfAMatrix) {
  const Tensor x = six.reshaped({1, 2, 3});
  double sum = 0;
  for (const float v : six.values<float>()) sum += std::exp(v);
  std::vector<double> wanted;
  for (const float v : six.values<float>()) wanted.push_back(std::exp(v) / sum);
  expect_near(run_old("Softmax", 11, {x}, {})[0].tensor, {1, 2, 3}, wanted, 1e-7);
  expect_near(run_old("Softmax", 9, {six}, {})[0].tensor, {2, 3},
              {0.09003057, 0.24472847, 0.66524096, 0.09003057, 0.24472847, 0.66524096}, 1e-7);
  for (double& value : wanted) value = std::log(value);
  expect_near(run_old("LogSoftmax", 11, {x}, {})[0].tensor, {1, 2, 3}, wanted, 1e-6);
}

TEST(Modernise, BroadcastingByAxis) {
  const Tensor a = floats({2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7}), b = floats({2}, {10, 20});
  expect_near(run_old("Add", 6, {a, b}, {{"broadcast", int64_t{1}}, {"axis", int64_t{1}}})[0].tensor, {2, 2, 2},
              {10, 11, 22, 23, 14, 15, 26, 27}, 0);
  expect_near(run_old("Mul", 6, {a, b}, {{"broadcast", int64_t{1}}})[0].tensor, {2, 2, 2},
              {0, 20, 20, 60, 40, 100, 60, 140}, 0);
  expect_near(run_old("PRelu", 6, {floats({1, 2, 2}, {-1, 1, -2, 2}), floats({2}, {0.5, 0.25})}, {})[0].tensor,
              {1, 2, 2}, {-0.5, 1, -0.5, 2}, 0);
}

TEST(Modernise, UpsampleIsResize) {
  const std::vector<double> wanted{1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4};
  const Tensor x = floats({1, 1, 2, 2}, {1, 2, 3, 4}), scales = floats({4}, {1, 1, 2, 2});
  expect_near(run_old("Upsample", 7, {x}, {{"scales", std::vector<double>{1, 1, 2, 2}}})[0].tensor, {1, 1, 4, 4},
              wanted, 0);
  expect_near(run_old("Upsample", 9, {x, scales}, {})[0].tensor, {1, 1, 4, 4}, wanted, 0);
  expect_near(run_old("Resize", 10, {x, scales}, {})[0].tensor, {1, 1, 4, 4}, wanted, 0);
}

// PyTorch's exporter and float16 converters write an empty tensor for the one of scales and sizes that is not given.
TEST(Modernise, ResizeKeepsOneOfScalesAndSizes) {
  const Tensor x = floats({1, 2}, {1, 2}), scales = floats({2}, {1, 2}), sizes = longs({2}, {1, 4});
  for (const bool by_size : {true, false}) {
    Graph graph = one_node(
        "Resize", 11, {x, Tensor(), floats({0}, {}), sizes},
        {{"coordinate_transformation_mode", std::string("asymmetric")}, {"nearest_mode", std::string("floor")}});
    graph.inputs.resize(1);
    graph.constants = {{"x2", by_size ? floats({0}, {}) : scales}, {"x3", by_size ? sizes : longs({0}, {})}};
    const Graph modern = modernise(graph);
    EXPECT_NE(modern.nodes[0].inputs.at(2).empty(), modern.nodes[0].inputs.at(3).empty());
    expect_near(run(modern, {x})[0].tensor, {1, 4}, {1, 1, 2, 2}, 0);
  }
}

TEST(Modernise, DropoutWasOffAndItsMaskAFloat) {
  const auto old = run_old("Dropout", 7, {six}, {{"ratio", 0.9}}, 2);
  expect_near(old[0].tensor, {2, 3}, {-2, -1, 0, 1, 2, 3}, 0);
  EXPECT_EQ(old[1].tensor.dtype(), DType::f32);
  EXPECT_EQ(run_old("Dropout", 10, {six}, {{"ratio", 0.9}}, 2)[1].tensor.dtype(), DType::boolean);
}

TEST(Modernise, BatchNormalizationTrainsWhereMoreIsAsked) {
  const Tensor x = floats({2, 1}, {1, 3}), one = floats({1}, {1}), zero = floats({1}, {0});
  const auto inference = run_old("BatchNormalization", 9, {x, one, zero, zero, one}, {{"epsilon", 0.0}});
  expect_near(inference[0].tensor, {2, 1}, {1, 3}, 0);
  const Graph graph =
      modernise(one_node("BatchNormalization", 9, {x, one, zero, zero, one}, {{"epsilon", 0.0}, {"momentum", 0.5}}, 5));
  EXPECT_EQ(graph.nodes[0].outputs.size(), 3u);
  EXPECT_TRUE(graph.nodes[0].attributes.flag("training_mode", false));
  const Graph spatial = one_node("BatchNormalization", 7, {x, one, zero, zero, one}, {{"spatial", int64_t{0}}});
  EXPECT_THROW(modernise(spatial), CannotRun);
  EXPECT_THAT(error_of([&] { modernise(spatial); }), HasSubstr("node 'n' (BatchNormalization): spatial is 0"));
}

TEST(Modernise, NamesAndTypesThatChanged) {
  EXPECT_EQ(modernise(one_node("Scatter", 9, {six, longs({1, 1}, {0}), floats({1, 1}, {5})}, {})).nodes[0].op,
            "ScatterElements");
  expect_near(run_old("Cast", 5, {six}, {{"to", std::string("INT32")}})[0].tensor, {2, 3}, {-2, -1, 0, 1, 2, 3}, 0);
  EXPECT_THAT(error_of([] {
                modernise(one_node("Cast", 5, {six}, {{"to", std::string("COMPLEX64")}}));
              }),
              HasSubstr("COMPLEX64"));
}

// One scale for each of two groups became one for each of four channels.
TEST(Modernise, GroupNormalization) {
  const Tensor x = floats({1, 4, 1}, {0, 2, 10, 14}), scale = floats({2}, {1, 3}), bias = floats({2}, {0, 1});
  expect_near(
      run_old("GroupNormalization", 18, {x, scale, bias}, {{"num_groups", int64_t{2}}, {"epsilon", 0.0}})[0].tensor,
      {1, 4, 1}, {-1, 1, -2, 4}, 1e-6);
}

// Opset 8: two samples, each with a state of its own; sums of (1, 2, 3) from 0 and of (4, 5, 6) from 10.
TEST(Modernise, ScanOfSeveralSamples) {
  Graph body{.name = "body",
             .inputs = {input("s", {1}), input("e", {1})},
             .outputs = {"t", "u"},
             .nodes = {node("Add", {"s", "e"}, {"t"}), node("Identity", {"t"}, {"u"})}};
  Graph graph{.name = "g", .inputs = {input("x0", {2, 1}), input("x1", {2, 3, 1})}, .outputs = {"last", "all"}};
  graph.nodes = {node("Scan", {"", "x0", "x1"}, {"last", "all"},
                      {{"body", std::make_shared<const Graph>(body)}, {"num_scan_inputs", int64_t{1}}})};
  graph.opsets[""] = 8;
  const Graph modern = modernise(graph);
  EXPECT_EQ(modern.nodes.back().op, "Loop");
  const auto results = run(modern, {floats({2, 1}, {0, 10}), floats({2, 3, 1}, {1, 2, 3, 4, 5, 6})});
  expect_near(results[0].tensor, {2, 1}, {6, 25}, 0);
  expect_near(results[1].tensor, {2, 3, 1}, {1, 3, 6, 14, 19, 25}, 0);
  graph.nodes[0].attributes.set("num_scan_inputs", int64_t{1} << 40);
  EXPECT_THAT(error_of([&] { modernise(graph); }), HasSubstr("num_scan_inputs is 1099511627776"));
}

TEST(Modernise, FunctionsAreExpanded) {
  const Graph graph = modernise(read_onnx(data_file("functions.onnx")));
  EXPECT_TRUE(graph.functions.empty());
  EXPECT_FALSE(graph.opsets.contains(""));
  EXPECT_EQ(graph.nodes.size(), 6u);
  std::set<std::string> names;
  for (const Node& one : graph.nodes) names.insert(one.name);
  EXPECT_EQ(names.size(), 6u);
  // x times 3 (the default), times 0.5, times 10
  const auto y = Evaluator(graph).run({{"x", floats({2}, {1, -2})}});
  EXPECT_THAT(y[0].tensor.values<float>(), ElementsAre(15, -30));
}

void take_names(const Graph& graph, std::vector<std::string>& names) {
  for (const GraphInput& one : graph.inputs) names.push_back(one.name);
  for (const auto& [name, tensor] : graph.constants) names.push_back(name);
  for (const Node& one : graph.nodes) {
    names.insert(names.end(), one.outputs.begin(), one.outputs.end());
    for (const auto& [name, value] : one.attributes.values())
      if (const auto* body = std::get_if<std::shared_ptr<const Graph>>(&value)) take_names(**body, names);
  }
}

// ONNX wants other names in a body than around it; the function, called twice, calls a value of its bodies as the
// network does an input.
TEST(Modernise, BodiesOfFunctionsTakeOtherNames) {
  Graph inner{.name = "inner", .outputs = {"x"}, .nodes = {node("Neg", {"a"}, {"x"})}};
  Graph doubled{.name = "doubled", .outputs = {"x"}};
  doubled.nodes = {node("If", {"small"}, {"t"},
                        {{"then_branch", std::make_shared<const Graph>(inner)},
                         {"else_branch", std::make_shared<const Graph>(inner)}}),
                   node("Sub", {"a", "t"}, {"x"})};
  Graph same{.name = "same", .outputs = {"x"}, .nodes = {node("Identity", {"a"}, {"x"})}};
  Function function{.op = "own:F", .inputs = {"a"}, .outputs = {"b"}};
  function.nodes = {node("ReduceMax", {"a"}, {"top"}, {{"keepdims", int64_t{0}}}),
                    node("Constant", {}, {"ten"}, {{"value_float", 10.0}}), node("Less", {"top", "ten"}, {"small"}),
                    node("If", {"small"}, {"b"},
                         {{"then_branch", std::make_shared<const Graph>(doubled)},
                          {"else_branch", std::make_shared<const Graph>(same)}})};
  Graph graph{.name = "g", .inputs = {input("x", {2})}, .outputs = {"z"}};
  graph.nodes = {node("own:F", {"x"}, {"y"}), node("own:F", {"y"}, {"z"})};
  graph.functions = {function};
  graph.opsets = {{"", 18}, {"own", 1}};
  const Graph modern = modernise(graph);
  std::vector<std::string> names;
  take_names(modern, names);
  const std::set<std::string> unlike(names.begin(), names.end());
  EXPECT_EQ(unlike.size(), names.size());
  EXPECT_THAT(Evaluator(modern).run({{"x", floats({2}, {1, 2})}})[0].tensor.values<float>(), ElementsAre(4, 8));
  EXPECT_THAT(Evaluator(modern).run({{"x", floats({2}, {3, 6})}})[0].tensor.values<float>(), ElementsAre(6, 12));
}

// What a Loop makes may have any rank: only the run tells.
TEST(Modernise, OldMeaningsOfValuesWhoseTypeAndRankOnlyTheRunTells) {
  Graph body{.name = "body", .outputs = {"c", "w"}};
  for (const char* name : {"i", "c", "v"}) body.inputs.push_back({.name = name, .symbols = {"*"}});
  body.nodes = {node("Clip", {"v"}, {"k"}, {{"max", 2.0}}), node("Dropout", {"k"}, {"d", "mask"}),
                node("Softmax", {"d"}, {"w"})};
  Graph graph{.name = "g", .inputs = {input("x0", {}, DType::i64), input("x1", {1, 2, 2})}, .outputs = {"y"}};
  graph.nodes = {node("Loop", {"x0", "", "x1"}, {"l"}, {{"body", std::make_shared<const Graph>(body)}}),
                 node("Softmax", {"l"}, {"y"})};
  graph.opsets[""] = 9;
  const auto y = run(modernise(graph), {longs({}, {1}), floats({1, 2, 2}, {0, 1, 2, 90})});
  // Softmax of the four numbers 0, 1, 2, 2, twice (by numpy).
  expect_near(y[0].tensor, {1, 2, 2}, {0.20314794, 0.2229244, 0.28696383, 0.28696383}, 1e-5);
}

// Scores 1 and 0: shares 0.731 and 0.269; with a body that sets all scores to 0 one half each. Two heads of Q share one
// of K and V.
TEST(Modernise, FlexAttentionRunsItsBodies) {
  const Tensor q = floats({1, 2, 1, 2}, {1, 0, 1, 0}), k = floats({1, 1, 2, 2}, {1, 0, 0, 1}),
               v = floats({1, 1, 2, 1}, {1, 3});
  Graph graph = one_node("ai.onnx.preview:FlexAttention", 26, {q, k, v}, {{"scale", 1.0}});
  graph.opsets["ai.onnx.preview"] = 1;
  expect_near(run(modernise(graph), {q, k, v})[0].tensor, {1, 2, 1, 1}, {1.5378828, 1.5378828}, 1e-6);
  Graph body{.name = "flat", .inputs = {input("s", {1, 2, 1, 2})}, .outputs = {"t"}};
  body.nodes = {node("Mul", {"s", "number"}, {"t"})};
  body.constants["number"] = floats({1}, {0});
  graph.nodes[0].attributes.set("score_mod", std::make_shared<const Graph>(body));
  expect_near(run(modernise(graph), {q, k, v})[0].tensor, {1, 2, 1, 1}, {2, 2}, 1e-6);
  body.nodes[0].op = "Add";
  body.constants["number"] = floats({1}, {0.5});
  graph.nodes[0].attributes.set("prob_mod", std::make_shared<const Graph>(body));  // one half, and one half added
  expect_near(run(modernise(graph), {q, k, v})[0].tensor, {1, 2, 1, 1}, {4, 4}, 1e-6);
}

TEST(Modernise, UnknownRanksAreAReason) {
  Graph graph = one_node("Add", 6, {six, six}, {{"broadcast", 1}, {"axis", 0}});
  graph.inputs[0].symbols = {"*"};
  EXPECT_THROW(modernise(graph), CannotRun);
  graph.nodes[0].attributes = {};
  graph.opsets[""] = 13;
  EXPECT_NO_THROW(modernise(graph));
}

}  // namespace
}  // namespace d5
