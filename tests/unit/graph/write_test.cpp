// SPDX-License-Identifier: Apache-2.0
#include "d5/graph/onnx/write.hpp"

#include <gmock/gmock.h>

#include "d5/graph/modernise.hpp"
#include "d5/graph/onnx/read.hpp"
#include "d5/graph/trainable.hpp"
#include "tests/unit/graph/graphs.hpp"

namespace d5 {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Graph small_network() {
  Graph graph{.name = "net",
              .inputs = {{.name = "x", .spec = {DType::f32, {2, 3}}, .symbols = {"N", ""}},
                         {.name = "w", .spec = {DType::f32, {3, 2}}, .parameter = true},
                         {.name = "t", .spec = {DType::f32, {2, 2}}, .symbols = {"N", ""}}},
              .outputs = {"y", "loss"},
              .constants = {{"b", floats({2}, {1, -1})}},
              .initial = {{"w", floats({3, 2}, {1, 2, 3, 4, 5, 6})}},
              .nodes = {node("Gemm", {"x", "w", "b"}, {"y"}), node("MeanSquaredError", {"y", "t"}, {"loss"})}};
  graph.nodes[0].name = "dense";
  graph.nodes[1].name = "error";
  return graph;
}

TEST(WriteOnnx, OwnWordsGetAnOpset) {
  Graph graph = small_network();
  EXPECT_EQ(parse_onnx(serialise_onnx(graph), "a").opsets.at(""), 18);
  graph.nodes.push_back(node("RMSNormalization", {"y", "b"}, {"z"}));
  EXPECT_EQ(parse_onnx(serialise_onnx(graph), "a").opsets.at(""), 23);
  graph.nodes.pop_back();
  graph.nodes.push_back(node("Cast", {"y"}, {"z"}, {{"to", int64_t{17}}, {"saturate", int64_t{0}}}));
  EXPECT_EQ(parse_onnx(serialise_onnx(graph), "a").opsets.at(""), 19);
}

// Versions from ONNX's own schemas: types that an operator got after opset 18, and types that only a node makes.
TEST(WriteOnnx, ElementTypesDecideTheOpset) {
  const auto opset = [](const std::string& op, DType type, Attributes attributes = {}) {
    Graph graph{.name = "g", .inputs = {input("x", {2}, type)}, .outputs = {"y"}};
    graph.nodes = {node(op, {"x"}, {"y"}, std::move(attributes))};
    if (op == "Equal") graph.nodes[0].inputs.push_back("x");
    return parse_onnx(serialise_onnx(graph), "a").opsets.at("");
  };
  EXPECT_EQ(opset("Equal", DType::string), 19);
  EXPECT_EQ(opset("Equal", DType::f16), 18);
  EXPECT_EQ(opset("IsInf", DType::f16), 20);
  EXPECT_EQ(opset("IsNaN", DType::f16), 18);
  EXPECT_EQ(opset("ReduceMax", DType::boolean), 20);
  EXPECT_EQ(opset("DequantizeLinear", DType::u16), 21);
  EXPECT_EQ(opset("QLinearMatMul", DType::f16), 21);
  EXPECT_EQ(opset("TopK", DType::bf16), 24);
  EXPECT_EQ(opset("Cast", DType::f32, {{"to", std::string("f8e5m2")}}), 19);
  EXPECT_EQ(opset("Cast", DType::f32, {{"to", std::string("i4")}}), 21);
  const auto body =
      std::make_shared<const Graph>(Graph{.name = "body", .outputs = {"b"}, .nodes = {node("IsInf", {"x"}, {"b"})}});
  Graph graph{.name = "g", .inputs = {input("x", {2}, DType::f16), input("c", {}, DType::boolean)}, .outputs = {"y"}};
  graph.nodes = {node("If", {"c"}, {"y"}, {{"then_branch", body}, {"else_branch", body}})};
  EXPECT_EQ(parse_onnx(serialise_onnx(graph), "a").opsets.at(""), 20);
}

std::string field(int number, const std::string& bytes) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
}

// Fields that are there and empty, and a file that names no opset of ONNX's own.
TEST(WriteOnnx, EmptyFieldsStay) {
  const std::string node = field(1, field(3, "") + field(4, "Op") + field(7, "") + field(8, ""));
  const std::string own = field(1, field(4, "Op") + field(7, "own"));
  for (const std::string& bytes : {"\x08\x08" + field(7, node + field(2, "")) + field(8, field(1, "") + "\x10\x0d"),
                                   "\x08\x08" + field(7, own) + field(8, field(1, "own") + "\x10\x01")}) {
    EXPECT_EQ(serialise_onnx(parse_onnx(bytes, "a")), bytes);
  }
  const Graph only = parse_onnx("\x08\x08" + field(7, own) + field(8, field(1, "own") + "\x10\x01"), "a");
  EXPECT_EQ(only.opsets.at(""), 28);
}

// A loss that ONNX lacks is a function in its words; here it is the operator again.
TEST(WriteOnnx, OwnOperatorsAreFunctions) {
  Graph graph = small_network();
  graph.nodes[1].attributes.set("reduction", std::string("sum"));
  const Graph read = parse_onnx(serialise_onnx(graph), "a");
  ASSERT_EQ(read.functions.size(), 1u);
  EXPECT_EQ(read.functions[0].op, "d5:MeanSquaredErrorSum");
  EXPECT_EQ(read.nodes.at(1).op, "d5:MeanSquaredErrorSum");
  const Graph modern = modernise(read);
  EXPECT_EQ(modern.nodes.at(1).op, "MeanSquaredError");
  EXPECT_EQ(modern.nodes.at(1).attributes.text("reduction", ""), "sum");
}

// The function's own nodes compute the same as the operator.
TEST(WriteOnnx, FunctionsOfOwnOperatorsMeanTheSame) {
  const Tensor p = floats({2, 2}, {0.2f, 0.7f, 0.9f, 0.4f}), t = floats({2, 2}, {0, 1, 1, 0});
  const Tensor labels = longs({2}, {1, 0});
  for (const std::string op : {"MeanSquaredError", "BinaryCrossEntropy", "CrossEntropy"})
    for (const std::string reduction : {"mean", "sum", "none"}) {
      const Tensor& target = op == "CrossEntropy" ? labels : t;
      Graph graph = one_node(op, 18, {p, target}, {{"reduction", reduction}});
      graph.opsets.clear();
      const auto wanted = run(graph, {p, target});
      Graph elsewhere = parse_onnx(serialise_onnx(graph), "a");
      ASSERT_EQ(elsewhere.functions.size(), 1u);
      elsewhere.functions[0].op = elsewhere.nodes[0].op = "other:Loss";  // so that it is not recognised
      elsewhere.opsets["other"] = 1;
      const Graph expanded = modernise(elsewhere);
      EXPECT_GT(expanded.nodes.size(), 1u);
      const Tensor loss = run(expanded, {p, target})[0].tensor, want = wanted[0].tensor;
      const Tensor wide = want.cast(DType::f64);
      expect_near(loss, want.shape(), {wide.values<double>().begin(), wide.values<double>().end()}, 1e-6);
    }
}

TEST(WriteOnnx, ParametersAreInitialisersAndComeBack) {
  Graph graph = small_network();
  set_loss(graph, "loss");
  record_trainable(graph);
  Graph read = modernise(parse_onnx(serialise_onnx(graph), "a"));
  EXPECT_THAT(read.constants.at("w").values<float>(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(read.inputs.size(), 2u);
  EXPECT_EQ(loss_of(read), "loss");
  EXPECT_THAT(make_trainable(read), ElementsAre("w"));  // and not b, which was a constant
  EXPECT_TRUE(read.inputs.back().parameter);
  EXPECT_TRUE(read.initial.contains("w"));
  EXPECT_TRUE(read.constants.contains("b"));
  EXPECT_THAT(error_of([&] { set_loss(read, "nothing"); }), HasSubstr("no node makes 'nothing'"));
  freeze_parameters(read, {{"w", floats({3, 2}, {9, 9, 9, 9, 9, 9})}});
  EXPECT_EQ(read.constants.at("w").values<float>()[5], 9);
}

// Without a list every float constant of an operator with a gradient, but not what follows the batches.
TEST(WriteOnnx, TrainableByDefault) {
  Graph graph{.name = "bn", .inputs = {input("x", {2, 2, 2})}, .outputs = {"y"}};
  for (const char* name : {"scale", "bias", "mean", "variance"}) graph.constants[name] = floats({2}, {1, 2});
  graph.constants["half"] = floats({}, {0.5});
  graph.nodes = {node("BatchNormalization", {"x", "scale", "bias", "mean", "variance"}, {"n"}),
                 node("Mul", {"n", "half"}, {"y"})};
  EXPECT_THAT(make_trainable(graph), ElementsAre("bias", "scale"));
  int statistics = 0;
  for (const GraphInput& one : graph.inputs) statistics += one.parameter && !one.differentiable;
  EXPECT_EQ(statistics, 2);
  EXPECT_TRUE(graph.constants.contains("half"));
}

TEST(WriteOnnx, ChangedInputsGiveOutputsNewTypes) {
  Graph graph = modernise(read_onnx(data_file("perceptron.onnx")));
  graph.inputs[0].symbols.clear();
  graph.inputs[0].spec.shape = Shape{7, 3};
  const Graph read = parse_onnx(serialise_onnx(graph), "a");
  EXPECT_EQ(read.inputs[0].spec.shape, (Shape{7, 3}));
  const std::string bytes = serialise_onnx(read);
  EXPECT_EQ(bytes.find(std::string("\x0a\x03\x12\x01N", 5)), std::string::npos);  // the symbol is nowhere left
}

TEST(WriteOnnx, ExternalDataStaysOutside) {
  const Folder folder;
  const Graph graph = read_onnx(data_file("external.onnx"));
  EXPECT_THAT(graph.constants.at("w").values<float>(), ElementsAre(1, 2, 3, 4));
  write_onnx(graph, folder / "copy.onnx");
  EXPECT_TRUE(std::filesystem::exists(folder / "copy.onnx.data"));
  EXPECT_THAT(read_onnx(folder / "copy.onnx").constants.at("w").values<float>(), ElementsAre(1, 2, 3, 4));
  std::filesystem::remove(folder / "copy.onnx.data");
  EXPECT_THAT(error_of([&] { read_onnx(folder / "copy.onnx"); }), HasSubstr("which is not there"));
  // In one piece it is inside.
  EXPECT_THAT(parse_onnx(serialise_onnx(graph), "a").constants.at("w").values<float>(), ElementsAre(1, 2, 3, 4));
}

TEST(WriteOnnx, NoHalfFileIsLeft) {
  const Folder folder;
  std::filesystem::create_directory(folder / "taken.onnx");
  EXPECT_ANY_THROW(write_onnx(small_network(), folder / "taken.onnx"));
  write_onnx(small_network(), folder / "new/deep/net.onnx");
  EXPECT_EQ(read_onnx(folder / "new/deep/net.onnx").name, "net");
  EXPECT_FALSE(std::filesystem::exists(folder / "new/deep/net.onnx.part"));
}

}  // namespace
}  // namespace d5
