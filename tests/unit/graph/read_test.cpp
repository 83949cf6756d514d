// SPDX-License-Identifier: Apache-2.0
// Files that the package onnx wrote (data/make.py): what is read is what they say, and written again they are the same.
#include "d5/graph/onnx/read.hpp"

#include <gmock/gmock.h>

#include "d5/graph/onnx/write.hpp"
#include "d5/graph/sizes.hpp"
#include "tests/unit/graph/graphs.hpp"

namespace d5 {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ReadOnnx, GraphOfVersionThree) {
  const Graph graph = read_onnx(data_file("perceptron.onnx"));
  EXPECT_EQ(graph.name, "perceptron");
  EXPECT_EQ(graph.opsets.at(""), 9);
  ASSERT_EQ(graph.inputs.size(), 1u);  // the weights are constants, though the file has them as inputs, too
  EXPECT_EQ(graph.inputs[0].name, "x");
  EXPECT_THAT(graph.inputs[0].symbols, ElementsAre("N", ""));
  EXPECT_EQ(graph.inputs[0].spec.shape, (Shape{1, 3}));
  EXPECT_THAT(graph.outputs, ElementsAre("y"));
  EXPECT_THAT(graph.constants.at("w").values<float>(), ElementsAre(0.5, -1, 2, 0.25, -0.5, 1));
  EXPECT_THAT(graph.constants.at("b").values<float>(), ElementsAre(0.1f, -0.2f));
  ASSERT_EQ(graph.nodes.size(), 2u);
  EXPECT_EQ(graph.nodes[0].op, "Gemm");
  EXPECT_EQ(graph.nodes[0].name, "dense");
  EXPECT_THAT(graph.nodes[0].inputs, ElementsAre("x", "w", "b"));
  EXPECT_EQ(graph.nodes[0].attributes.real("alpha", 0), 1);
  EXPECT_EQ(graph.nodes[0].attributes.integer("transB", 5), 0);
  EXPECT_EQ(graph.metadata.at("author"), "somebody");
}

TEST(ReadOnnx, BodiesAreGraphs) {
  const Graph graph = read_onnx(data_file("branches.onnx"));
  const auto body = graph.nodes.at(0).attributes.graph("body");
  ASSERT_TRUE(body);
  EXPECT_EQ(body->inputs.size(), 3u);
  EXPECT_EQ(body->constants.at("ten").values<float>()[0], 10);
  EXPECT_TRUE(body->nodes.at(2).attributes.graph("else_branch"));
}

TEST(ReadOnnx, FunctionsKeepTheirReferences) {
  const Graph graph = read_onnx(data_file("functions.onnx"));
  ASSERT_EQ(graph.functions.size(), 2u);
  EXPECT_EQ(graph.functions[0].op, "own:Scale");
  EXPECT_EQ(graph.functions[0].defaults.real("factor", 0), 3);
  EXPECT_EQ(graph.functions[0].nodes.at(0).references.at("value_float"), "factor");
  EXPECT_EQ(graph.nodes.at(1).op, "own:Scale");
}

// A file that only imports a domain of its own is still ONNX, not a graph in d5's own words: it stays as it is when it
// is written and read again.
TEST(ReadOnnx, OnlyADomainOfItsOwn) {
  using namespace std::string_literals;
  const std::string file =
      "\x08\x08"                                        // IR version 8
      "\x3a\x13\x0a\x0c\x12\x01y\x22\x02Go\x3a\x03own"  // graph: y = own:Go()
      "\x12\x01g\x62\x00"                               // its name and an output without a name
      "\x42\x07\x0a\x03own\x10\x01"s;                   // opset: own 1
  const Graph graph = parse_onnx(file, "own.onnx", "/nowhere");
  EXPECT_EQ(graph.nodes.at(0).op, "own:Go");
  const Graph again = parse_onnx(serialise_onnx(graph), "again.onnx", "/nowhere");
  EXPECT_EQ(again.opsets, graph.opsets);
  EXPECT_TRUE(again.opsets.contains(""));
}

// Each type once as raw bytes and once as a typed list: 1, 2, 3 (bool: 1, 0, 1).
TEST(ReadOnnx, AllElementTypes) {
  const Graph graph = read_onnx(data_file("types.onnx"));
  int seen = 0;
  for (const auto& [name, tensor] : graph.constants) {
    if (tensor.dtype() == DType::string || name == "sparse") continue;
    const bool boolean = tensor.dtype() == DType::boolean;
    EXPECT_THAT(tensor.cast(DType::f64).values<double>(), ElementsAre(1, boolean ? 0 : 2, boolean ? 1 : 3)) << name;
    ++seen;
  }
  EXPECT_EQ(seen, 42);
  EXPECT_THAT(graph.constants.at("STRING_typed").values<std::string>(), ElementsAre("one", "two"));
  EXPECT_THAT(graph.constants.at("sparse").values<float>(), ElementsAre(0, 5, 0, 0, 7, 0));
}

class RoundTrip : public testing::TestWithParam<const char*> {};

// Not only the same meaning: the same bytes, comments, order of attributes and form of tensors included.
TEST_P(RoundTrip, IsLossless) {
  const std::string before = file_bytes(data_file(GetParam()));
  ASSERT_FALSE(before.empty());
  EXPECT_EQ(serialise_onnx(read_onnx(data_file(GetParam()))), before);
}
INSTANTIATE_TEST_SUITE_P(Files, RoundTrip,
                         testing::Values("perceptron.onnx", "branches.onnx", "functions.onnx", "types.onnx"));

// A later version of the format: fields that nobody here knows, at the level of the model and of a node.
TEST(ReadOnnx, UnknownFieldsSurvive) {
  Graph graph{.name = "g", .inputs = {input("x", {2})}, .outputs = {"y"}, .nodes = {node("Relu", {"x"}, {"y"})}};
  std::string bytes = serialise_onnx(graph);
  const std::string unknown("\xa2\x3f\x05later", 8);  // field 1012 of 5 bytes
  bytes += unknown;
  const Graph read = parse_onnx(bytes, "later.onnx");
  EXPECT_EQ(read.nodes.at(0).op, "Relu");
  EXPECT_THAT(serialise_onnx(read), HasSubstr(unknown));
}

TEST(ReadOnnx, SizesAreBoundByName) {
  Graph graph = read_onnx(data_file("perceptron.onnx"));
  EXPECT_THAT(free_sizes(graph), ElementsAre("N"));
  bind_sizes(graph, {{"N", 16}});
  EXPECT_EQ(graph.inputs[0].spec.shape, (Shape{16, 3}));
  bind_sizes(graph, {{"N", 4}});  // it stays a symbol
  EXPECT_EQ(graph.inputs[0].spec.shape, (Shape{4, 3}));
  EXPECT_THAT(error_of([&] { bind_sizes(graph, {{"M", 4}}); }), HasSubstr("unknown free size 'M'"));
  EXPECT_THAT(error_of([&] { bind_input(graph, "x", DType::f32, {4, 5}); }), HasSubstr("f32[4x5] was given"));
  // A binding is not part of the file.
  EXPECT_EQ(serialise_onnx(graph), file_bytes(data_file("perceptron.onnx")));
}

}  // namespace
}  // namespace d5
