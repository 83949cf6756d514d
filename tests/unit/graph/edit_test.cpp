// SPDX-License-Identifier: Apache-2.0
#include "d5/graph/edit.hpp"

#include <gmock/gmock.h>

#include "d5/graph/differences.hpp"
#include "d5/graph/dot.hpp"
#include "d5/graph/onnx/read.hpp"
#include "d5/graph/onnx/write.hpp"
#include "d5/graph/summary.hpp"
#include "tests/unit/graph/graphs.hpp"

namespace d5 {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// x -> Relu -> a -> Neg -> b -> Abs -> y, and a -> Exp -> unused
Graph chain() {
  Graph graph{.name = "chain", .inputs = {input("x", {2})}, .outputs = {"y"}};
  graph.nodes = {node("Relu", {"x"}, {"a"}), node("Neg", {"a"}, {"b"}), node("Exp", {"a"}, {"unused"}),
                 node("Abs", {"b"}, {"y"})};
  for (Node& one : graph.nodes) one.name = one.op;
  graph.constants["left"] = floats({1}, {1});
  return graph;
}

std::vector<std::string> ops(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& one : graph.nodes) names.push_back(one.op);
  return names;
}

TEST(Edit, Finds) {
  const Graph graph = chain();
  EXPECT_EQ(find_node(graph, "Neg"), 1u);
  EXPECT_EQ(find_node(graph, "Tan"), no_node);
  EXPECT_EQ(find_producer(graph, "b"), 1u);
  EXPECT_EQ(find_producer(graph, "x"), no_node);
  EXPECT_THAT(find_readers(graph, "a"), ElementsAre(1, 2));
  EXPECT_EQ(fresh_name(graph, "new"), "new");
  EXPECT_EQ(fresh_name(graph, "a"), "a_2");
  EXPECT_EQ(describe(graph, 1), "node 1 'Neg' (Neg)");
}

TEST(Edit, InsertsReplacesRemoves) {
  Graph graph = chain();
  insert_node(graph, 1, node("Sqrt", {"a"}, {"s"}));
  EXPECT_THAT(ops(graph), ElementsAre("Relu", "Sqrt", "Neg", "Exp", "Abs"));
  replace_node(graph, 1, {node("Cos", {"a"}, {"c"}), node("Sin", {"c"}, {"s"})});
  EXPECT_THAT(ops(graph), ElementsAre("Relu", "Cos", "Sin", "Neg", "Exp", "Abs"));
  EXPECT_THAT(error_of([&] { remove_node(graph, 0); }), AllOf(HasSubstr("'a'"), HasSubstr("still read")));
  remove_node(graph, 4);
  EXPECT_THAT(ops(graph), ElementsAre("Relu", "Cos", "Sin", "Neg", "Abs"));
  EXPECT_EQ(remove_dead(graph), 2u);
  EXPECT_THAT(ops(graph), ElementsAre("Relu", "Neg", "Abs"));
  EXPECT_THAT(graph.constants, IsEmpty());
}

TEST(Edit, BypassLeadsAround) {
  Graph graph = chain();
  bypass_node(graph, 1, "a");
  EXPECT_THAT(graph.nodes[2].inputs, ElementsAre("a"));
  // The last node makes an output of the graph: its name stays.
  bypass_node(graph, 2, "a");
  EXPECT_THAT(ops(graph), ElementsAre("Relu", "Exp", "Identity"));
  EXPECT_THAT(graph.nodes[2].outputs, ElementsAre("y"));
}

Graph with_body() {
  Graph inner{.name = "inner", .outputs = {"r"}, .nodes = {node("Add", {"a", "own"}, {"r"})}};
  inner.constants["own"] = floats({2}, {1, 1});
  Graph graph{.name = "outer", .inputs = {input("x", {2}), input("c", {}, DType::boolean)}, .outputs = {"y"}};
  const auto body = std::make_shared<const Graph>(inner);
  graph.nodes = {node("If", {"c"}, {"y"}, {{"then_branch", body}, {"else_branch", body}}), node("Relu", {"x"}, {"a"})};
  return graph;
}

TEST(Edit, BodiesReadWhatIsAroundThem) {
  Graph graph = with_body();
  EXPECT_THAT(captured_values(*graph.nodes[0].attributes.graph("then_branch")), ElementsAre("a"));
  sort_nodes(graph);  // the If needs `a`, though it is none of its inputs
  EXPECT_THAT(ops(graph), ElementsAre("Relu", "If"));
  EXPECT_EQ(remove_dead(graph), 0u);
  graph.nodes[0].outputs = {"b"};
  replace_value(graph, "a", "b");
  EXPECT_THAT(graph.nodes[1].attributes.graph("else_branch")->nodes[0].inputs, ElementsAre("b", "own"));
}

// `a` becomes `r`, which the body has of its own: that one gives way, or the body would read itself.
TEST(Edit, NamesFromOutsideAreNotHiddenByABodysOwn) {
  Graph inner = *with_body().nodes[0].attributes.graph("then_branch");
  const Graph first = rename_captured(inner, {{"a", "r"}});
  EXPECT_THAT(first.nodes[0].inputs, ElementsAre("r", "own"));
  EXPECT_THAT(first.nodes[0].outputs, ElementsAre("r_2"));
  EXPECT_THAT(first.outputs, ElementsAre("r_2"));
  const Graph second = rename_captured(inner, {{"a", "own"}});
  EXPECT_THAT(second.nodes[0].inputs, ElementsAre("own", "own_2"));
  EXPECT_TRUE(second.constants.contains("own_2"));
  EXPECT_FALSE(second.constants.contains("own"));
  // Seen from a body around it, the name from outside passes through.
  Graph middle{.name = "middle", .inputs = {input("own", {2})}, .outputs = {"z"}};
  middle.nodes = {node("If", {"c"}, {"z"}, {{"then_branch", std::make_shared<const Graph>(inner)}})};
  const Graph third = rename_captured(middle, {{"a", "own"}});
  EXPECT_EQ(third.inputs[0].name, "own_2");
  EXPECT_THAT(third.nodes[0].attributes.graph("then_branch")->nodes[0].inputs, ElementsAre("own", "own_3"));
}

TEST(Edit, SortsAndNamesCycles) {
  Graph graph = chain();
  std::ranges::reverse(graph.nodes);
  sort_nodes(graph);
  EXPECT_THAT(ops(graph), ElementsAre("Relu", "Exp", "Neg", "Abs"));  // as near to the given order as possible
  graph.nodes[0].inputs = {"b"};
  EXPECT_THAT(error_of([&] { sort_nodes(graph); }), AllOf(HasSubstr("wait for each other"), HasSubstr("(Relu)"),
                                                          HasSubstr("(Neg)"), testing::Not(HasSubstr("(Abs)"))));
}

TEST(Summary, CountsLayers) {
  Graph graph{.name = "net", .inputs = {input("x", {4, 3})}, .outputs = {"y"}};
  graph.constants["w"] = Tensor(DType::f32, {3, 5});
  graph.constants["b"] = Tensor(DType::f32, {5});
  graph.nodes = {node("Gemm", {"x", "w", "b"}, {"h"}), node("Relu", {"h"}, {"y"})};
  const NetworkSummary summary = summarise(graph);
  EXPECT_EQ(summary.parameters, 20);
  EXPECT_EQ(summary.parameter_bytes, 80);
  ASSERT_EQ(summary.layers.size(), 2u);
  EXPECT_EQ(summary.layers[0].parameters, 20);
  EXPECT_GE(summary.layers[0].flops, 2 * 4 * 3 * 5);
  EXPECT_THAT(summary.layers[0].outputs, ElementsAre("f32[4x5]"));
  EXPECT_EQ(summary.activation_bytes, 160);
  EXPECT_EQ(summary.peak_bytes, 160);  // h and y; x (48) is no longer needed
  EXPECT_EQ(summary.unknown, "");
}

TEST(Summary, ShapesThatDoNotFitHaveNoCost) {
  Graph graph{.name = "net", .inputs = {input("x", {4}), input("w", {4})}, .outputs = {"y"}};
  graph.nodes = {node("Gemm", {"x", "w"}, {"y"})};
  const NetworkSummary summary = summarise(graph);
  ASSERT_EQ(summary.layers.size(), 1u);
  EXPECT_EQ(summary.layers[0].flops, 0);
  EXPECT_NE(summary.unknown, "");
}

TEST(Differences, SaysWhatDiffers) {
  const Graph a = chain();
  Graph b = a;
  EXPECT_THAT(differences(a, b), IsEmpty());
  b.constants["left"] = floats({1}, {1.5});
  b.nodes[1].op = "Sqrt";
  b.nodes[3].attributes.set("axis", int64_t{1});
  b.inputs[0].spec.shape = Shape{3};
  EXPECT_THAT(differences(a, b),
              ElementsAre("input 'x': f32[2] and f32[3]", "node 'Abs': attribute 'axis': only in the second",
                          "node 'Neg': Neg and Sqrt", "constant 'left': 1 of 1 elements differ, by at most 0.5"));
}

TEST(Differences, LooksIntoFunctions) {
  Graph a = chain();
  a.functions = {{.op = "own:f", .inputs = {"x"}, .outputs = {"y"}, .nodes = {node("Relu", {"x"}, {"y"})}}};
  Graph b = a;
  EXPECT_THAT(differences(a, b), IsEmpty());
  b.functions[0].nodes[0].op = "Abs";
  b.functions[0].opsets[""] = 18;
  EXPECT_THAT(differences(a, b),
              ElementsAre("function 'own:f': opset '': only in the second", "function 'own:f': node '': Relu and Abs"));
  b.functions.clear();
  EXPECT_THAT(differences(a, b), ElementsAre("function 'own:f': only in the first"));
}

TEST(Differences, LooksAtDeclaredOutputs) {
  const auto with_output = [](Index rows) {
    Graph graph{
        .name = "g", .inputs = {input("x", {rows, 2})}, .outputs = {"y"}, .nodes = {node("Relu", {"x"}, {"y"})}};
    Graph read = parse_onnx(serialise_onnx(graph), "a");
    read.inputs = {input("x", {4, 2})};
    return read;
  };
  EXPECT_THAT(differences(with_output(3), with_output(3)), IsEmpty());
  EXPECT_THAT(differences(with_output(3), with_output(5)), ElementsAre("output 'y': f32[3x2] and f32[5x2]"));
}

TEST(Dot, DrawsNodesAndShapes) {
  Graph graph = chain();
  graph.nodes[0].name = "a \"name\"";
  const std::string text = dot_text(graph);
  EXPECT_THAT(text, AllOf(HasSubstr("digraph \"chain\" {"), HasSubstr("a \\\"name\\\""),
                          HasSubstr("input0 -> node0 [label=\"f32[2]\"]"), HasSubstr("-> output0")));
}

}  // namespace
}  // namespace d5
