// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <filesystem>

#include "d5/bench/session.hpp"
#include "d5/graph/onnx/values.hpp"
#include "d5/graph/onnx/write.hpp"
#include "tests/unit/graph/graphs.hpp"

namespace d5 {
namespace {

// The graph with inputs "x" and outputs "y" as a test with these values stored.
Outcome check(const Graph& graph, const Tensor& x, const Tensor& y, const std::string& backend = "reference") {
  const Folder folder;
  write_onnx(graph, folder / "model.onnx");
  const auto set = folder / "test_data_set_0";
  std::filesystem::create_directory(set);
  write_onnx_value(GraphValue(x), set / "input_0.pb");
  write_onnx_value(GraphValue(y), set / "output_0.pb");
  const Json fields{
      {"kind", "onnx-test"}, {"test", graph.name}, {"folder", folder.path().string()}, {"backend", backend}};
  const Bench& bench = bench_of(fields);
  return bench.open(bench.complete(fields))->prepare(Depth::check);
}

// 16 nodes that do nothing: a network, not an operator.
void pass_on(Graph& graph, const std::string& from, const std::string& to) {
  for (int i = 0; i < 16; ++i)
    graph.nodes.push_back(
        node("Identity", {i == 0 ? from : fmt::format("h{}", i)}, {i == 15 ? to : fmt::format("h{}", i + 1)}));
}

// (x + 1024) - 1024: a sum in f16 is off by up to a half, one in f32 by 6e-5. Stored is x itself, as a runtime has it
// that folds the two constants.
Outcome check_sums(DType type) {
  Graph graph{.name = "sums", .inputs = {input("x", {2}, type)}, .outputs = {"y"}};
  graph.constants = {{"k", Tensor::scalar(1024, type)}};
  pass_on(graph, "x", "h");
  graph.nodes.push_back(node("Add", {"h", "k"}, {"sum"}));
  graph.nodes.push_back(node("Sub", {"sum", "k"}, {"y"}));
  const Tensor x = floats({2}, {0.25f, 100.0f}).cast(type);
  return check(graph, x, type == DType::f32 ? floats({2}, {0.26f, 100.0f}) : x);
}

TEST(OnnxTests, RoundingsAreThoseOfTheNarrowestFloats) {
  const Outcome narrow = check_sums(DType::f16);
  EXPECT_EQ(narrow.status, "passed") << narrow.reason;
  EXPECT_EQ(check_sums(DType::f32).status, "failed");  // off by 0.01
}

// With the range 0 to 255 a step is 1, and the other numbers lie between two: off by its last bit, as a sum may be, 1.5
// falls to 1.
TEST(OnnxTests, StepsOfTheRunItselfMayFallToEitherSide) {
  Graph graph{.name = "steps", .inputs = {input("x", {6, 1})}, .outputs = {"y"}};
  graph.constants = {{"one", floats({1, 1}, {1})}};
  pass_on(graph, "x", "h");
  graph.nodes.push_back(node("MatMul", {"h", "one"}, {"product"}));
  graph.nodes.push_back(node("DynamicQuantizeLinear", {"product"}, {"q", "scale", "zero"}));
  graph.nodes.push_back(node("DequantizeLinear", {"q", "scale", "zero"}, {"y"}));
  const Tensor x = floats({6, 1}, {0, 255, 1.5f, 3.5f, 5.5f, 7.5f});
  const Outcome beside = check(graph, x, floats({6, 1}, {0, 255, 1, 4, 6, 8}));
  EXPECT_EQ(beside.status, "passed") << beside.reason;
  EXPECT_EQ(check(graph, x, floats({6, 1}, {0, 255, 9, 4, 6, 8})).status, "failed");
}

// As PyTorch exports what it trains: ratio and training_mode are nodes.
TEST(OnnxTests, DropoutThatTrainsIsRandom) {
  for (const bool training : {true, false}) {
    Graph graph{.name = "dropout", .inputs = {input("x", {4})}, .outputs = {"y"}};
    graph.nodes.push_back(node("Constant", {}, {"ratio"}, {{"value_float", 0.5}}));
    graph.nodes.push_back(node("Constant", {}, {"mode"}));
    graph.nodes.back().attributes.set("value",
                                      std::make_shared<const Tensor>(Tensor::scalar(training, DType::boolean)));
    graph.nodes.push_back(node("Dropout", {"x", "ratio", "mode"}, {"y"}));
    const Outcome outcome = check(graph, floats({4}, {1, 2, 3, 4}), floats({4}, {7, 7, 7, 7}));
    EXPECT_EQ(outcome.status, training ? "passed" : "failed") << outcome.reason;
  }
}

}  // namespace
}  // namespace d5
