// SPDX-License-Identifier: Apache-2.0
// How graphs run through kernels: order, slots, fan-out, adding gradients, observers, shared parameters. Expected
// numbers are worked out by hand in the comments.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "d5/backends/backend.hpp"

namespace d5 {
namespace {

using testing::ElementsAre;
using Role = Executable::Role;

Tensor row(const std::vector<float>& values) {
  return Tensor::from<float>({1, static_cast<Index>(values.size())}, values);
}
std::vector<float> floats(const Tensor& tensor) {
  const auto values = tensor.values<float>();
  return {values.begin(), values.end()};
}
bool is_on(const std::string& backend) {
  for (const BackendStatus& status : backend_statuses())
    if (status.name == backend) return status.available;
  return false;
}

// h = x W;  r = relu(h);  y = r + h      x: 1x2, W: 2x2
Graph diamond() {
  Graph graph{.name = "diamond"};
  graph.inputs = {{"x", {DType::f32, {1, 2}}}, {"W", {DType::f32, {2, 2}}, true}};
  graph.outputs = {"y"};
  graph.nodes = {{"Gemm", "product", {"x", "W"}, {"h"}, {}},
                 {"Relu", "relu", {"h"}, {"r"}, {}},
                 {"Add", "sum", {"r", "h"}, {"y"}, {}}};
  return graph;
}

class Graphs : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!is_on(GetParam())) GTEST_SKIP() << GetParam() << " is off";
    backend_ = open_backend(GetParam());
    options_.mode = Mode::training;
    options_.input_gradients = true;
  }
  std::unique_ptr<Backend> backend_;
  CompileOptions options_;
  ParameterSet parameters_;
};

// x = (1, 2), W = (1 -1; 1 -2): h = (3, -5), r = (3, 0), y = (6, -5).
// dy = (1, 10): dr = dy, dh = dy + dr [h > 0] = (2, 10); dx = dh W^T = (2 - 10, 2 - 20); dW = x^T dh.
TEST_P(Graphs, GradientsAddWhereAValueIsReadTwice) {
  options_.keep = {"h"};
  const auto run = backend_->compile(diamond(), parameters_, options_);
  run->write(Role::value, "x", row({1, 2}));
  run->write(Role::value, "W", Tensor::from<float>({2, 2}, {1, -1, 1, -2}));
  run->write(Role::gradient, "y", row({1, 10}));
  for (int repeat = 0; repeat < 2; ++repeat) {
    run->forward({});
    run->backward({});
    EXPECT_THAT(floats(run->read(Role::value, "y")), ElementsAre(6, -5));
    if (GetParam() != "torch") {  // autograd frees the gradients of what lies between
      EXPECT_THAT(floats(run->read(Role::gradient, "h")), ElementsAre(2, 10));
    }
    EXPECT_THAT(floats(run->read(Role::gradient, "x")), ElementsAre(-8, -18));
    EXPECT_THAT(floats(run->read(Role::gradient, "W")), ElementsAre(2, 10, 4, 20));
  }
  run->forward({});
  run->backward({.add_gradients = true});
  EXPECT_THAT(floats(run->read(Role::gradient, "W")), ElementsAre(4, 20, 8, 40)) << "parameters add";
  EXPECT_THAT(floats(run->read(Role::gradient, "x")), ElementsAre(-8, -18)) << "a slot's own gradients do not";
}

// An output that is read as well: y1 = relu(x), y2 = y1 + y1. dy1 = 3 is seeded, dy2 = 1 gives 2 more: dx = 5 [x > 0].
TEST_P(Graphs, SeededOutputThatIsReadKeepsItsSeed) {
  Graph graph{.name = "seeded", .inputs = {{"x", {DType::f32, {1, 2}}}}, .outputs = {"y1", "y2"}};
  graph.nodes = {{"Relu", "relu", {"x"}, {"y1"}, {}}, {"Add", "twice", {"y1", "y1"}, {"y2"}, {}}};
  const auto run = backend_->compile(graph, parameters_, options_);
  run->write(Role::value, "x", row({7, -7}));
  run->write(Role::gradient, "y1", row({3, 3}));
  run->write(Role::gradient, "y2", row({1, 1}));
  for (int repeat = 0; repeat < 3; ++repeat) {
    run->forward({});
    run->backward({});
    EXPECT_THAT(floats(run->read(Role::gradient, "x")), ElementsAre(5, 0));
  }
}

TEST_P(Graphs, SlotsKeepTheirOwnValues) {
  options_.slots = 2;
  const auto run = backend_->compile(diamond(), parameters_, options_);
  run->write(Role::value, "W", Tensor::from<float>({2, 2}, {1, 0, 0, 1}));
  for (int slot : {0, 1}) {
    run->write(Role::value, "x", row({1.0f + static_cast<float>(slot), -1}), slot);
    run->write(Role::gradient, "y", row({1, 1}), slot);
  }
  run->forward({.slot = 0});
  run->forward({.slot = 1});
  EXPECT_THAT(floats(run->read(Role::value, "y", 0)), ElementsAre(2, -1));
  EXPECT_THAT(floats(run->read(Role::value, "y", 1)), ElementsAre(4, -1));
  // dh = (2, 1) in both; dW adds x^T dh: x = (1, -1) gives (2 1; -2 -1), x = (2, -1) gives (4 2; -2 -1).
  run->backward({.slot = 0});
  run->backward({.slot = 1, .add_gradients = true});
  EXPECT_THAT(floats(run->read(Role::gradient, "W")), ElementsAre(6, 3, -4, -2));
  EXPECT_THROW(run->forward({.slot = 2}), Error);
}

struct Recorder final : Observer {
  std::vector<std::string> events;
  void node_begin(const Node& node, Pass pass) override {
    events.push_back((pass == Pass::forward ? "+" : "-") + node.name);
  }
  void gradient_ready(const Gradient& gradient) override {
    events.push_back("ready " + std::string(gradient.parameter));
  }
};

// y = relu(x W1) W2: gradients become ready from the last node to the first, and the set is in that order.
TEST_P(Graphs, ParametersLieInTheOrderInWhichGradientsBecomeReady) {
  Graph graph{.name = "chain"};
  graph.inputs = {{"x", {DType::f32, {1, 2}}}, {"W1", {DType::f32, {2, 3}}, true}, {"W2", {DType::f32, {3, 2}}, true}};
  graph.outputs = {"y"};
  graph.nodes = {{"Gemm", "first", {"x", "W1"}, {"h"}, {}},
                 {"Relu", "relu", {"h"}, {"r"}, {}},
                 {"Gemm", "second", {"r", "W2"}, {"y"}, {}}};
  options_.input_gradients = false;
  options_.keep_all = true;  // nothing is fused
  const auto run = backend_->compile(graph, parameters_, options_);
  ASSERT_EQ(parameters_.parameters().size(), 2u);
  EXPECT_EQ(parameters_.parameters()[0].name, "W2");
  EXPECT_EQ(parameters_.parameters()[1].name, "W1");
  Recorder recorder;
  run->forward({.observer = &recorder});
  run->backward({.observer = &recorder});
  EXPECT_THAT(recorder.events,
              ElementsAre("+first", "+relu", "+second", "-second", "ready W2", "-relu", "-first", "ready W1"));
  EXPECT_THROW(run->read(Role::gradient, "x"), Error) << "nobody asked for it";

  // A second executable shares the parameters: a change of one is seen by the other.
  CompileOptions evaluation = options_;
  const auto other = backend_->compile(graph, parameters_, evaluation);
  other->write(Role::value, "W1", Tensor::from<float>({2, 3}, {1, 2, 3, 4, 5, 6}));
  EXPECT_THAT(floats(run->read(Role::value, "W1")), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_P(Graphs, ConstantsAreInPlaceFromTheStart) {
  Graph graph{.name = "constant", .inputs = {{"x", {DType::f32, {1, 2}}}}, .outputs = {"y"}};
  graph.constants["one"] = row({1, 1});
  graph.nodes = {{"Add", "sum", {"x", "one"}, {"y"}, {}}};
  const auto run = backend_->compile(graph, parameters_, {});
  run->write(Role::value, "x", row({1, 2}));
  run->forward({});
  EXPECT_THAT(floats(run->read(Role::value, "y")), ElementsAre(2, 3));
}

TEST_P(Graphs, ErrorsNameWhatIsWrong) {
  const auto run = backend_->compile(diamond(), parameters_, {});
  EXPECT_THROW(run->backward({}), Error) << "compiled for inference";
  EXPECT_THROW(run->write(Role::value, "x", row({1, 2, 3})), Error) << "another shape";
  try {
    run->read(Role::value, "w");
    FAIL() << "an unknown name was read";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("did you mean 'W'"));
  }
  CompileOptions elsewhere;
  elsewhere.device = "cuda:0";
  if (GetParam() != "torch") {  // it may have one
    EXPECT_THAT(backend_->why_not(diamond(), elsewhere).value_or(""), testing::HasSubstr("runs on the cpu"));
  }
  CompileOptions unknown;
  unknown.kernel = "mine";
  EXPECT_THAT([&] { backend_->why_not(diamond(), unknown); },
              testing::ThrowsMessage<UsageError>(
                  testing::AllOf(testing::HasSubstr("'mine'"), testing::HasSubstr("Legal: builtin"))));
}

INSTANTIATE_TEST_SUITE_P(Backends, Graphs, testing::Values("reference", "onednn", "torch"),
                         [](const auto& info) { return info.param; });

TEST(Reference, ComputesInEveryType) {
  const auto backend = open_backend("reference");
  for (const DType type : {DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64, DType::u32}) {
    OperatorCase one;
    one.inputs = {{.spec = {type, {1, 2}}}, {.spec = {type, {2, 1}}, .parameter = true}};
    ParameterSet parameters;
    const auto run = backend->compile(single_node_graph("Gemm", one), parameters, {});
    run->write(Role::value, "x0", Tensor::from<float>({1, 2}, {3, 5}).cast(type));
    run->write(Role::value, "x1", Tensor::from<float>({2, 1}, {7, 2}).cast(type));
    run->forward({});
    EXPECT_EQ(run->read(Role::value, "y0").cast(DType::f64).values<double>()[0], 31) << name(type);
  }
}

TEST(Reference, RoundsOnce) {
  // 1 + 2^-8 + 2^-8: added one by one in bf16 each addend is half a unit and lost to even; their sum is a unit.
  OperatorCase one;
  one.inputs = {{.spec = {DType::bf16, {1, 3}}}, {.spec = {DType::bf16, {3, 1}}}};
  ParameterSet parameters;
  const auto run = open_backend("reference")->compile(single_node_graph("Gemm", one), parameters, {});
  run->write(Role::value, "x0", Tensor::from<float>({1, 3}, {1, 0x1p-8f, 0x1p-8f}).cast(DType::bf16));
  run->write(Role::value, "x1", Tensor::from<float>({3, 1}, {1, 1, 1}).cast(DType::bf16));
  run->forward({});
  EXPECT_EQ(run->read(Role::value, "y0").cast(DType::f64).values<double>()[0], 1 + 0x1p-7);
}

TEST(Backends, UnknownNamesGetASuggestion) {
  try {
    open_backend("onedn");
    FAIL() << "opened";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("did you mean 'onednn'"));
  }
  EXPECT_EQ(parse_math("tf32"), Math::tf32);
  EXPECT_EQ(parse_layout("plain"), LayoutChoice::plain);
  EXPECT_THROW(parse_math("fast"), UsageError);
  EXPECT_THROW(parse_layout("nhwc"), UsageError);
}

TEST(Backends, ReasonsAreGivenWithoutOpening) {
  bool reference = false;
  for (const BackendStatus& status : backend_statuses()) {
    EXPECT_FALSE(status.reason.empty()) << status.name;
    if (status.name == "reference") reference = status.available && status.module.empty();
  }
  EXPECT_TRUE(reference);
}

TEST(Onednn, SaysWhatItCannot) {
  if (!is_on("onednn")) GTEST_SKIP() << "onednn is off";
  const auto backend = open_backend("onednn");
  OperatorCase one;
  one.inputs = {{.spec = {DType::f64, {2, 2}}}, {.spec = {DType::f64, {2, 2}}}};
  EXPECT_THAT(backend->why_not(single_node_graph("Gemm", one), {}).value_or(""),
              testing::HasSubstr("f32 and bf16, not in f64"));
  CompileOptions winograd;
  winograd.math = Math::winograd;
  one.inputs[0].spec.dtype = one.inputs[1].spec.dtype = DType::f32;
  EXPECT_THAT(backend->why_not(single_node_graph("Gemm", one), winograd).value_or(""),
              testing::HasSubstr("only convolutions"));
  Graph attention{.name = "scores"};
  for (const char* name : {"q", "k", "v"}) attention.inputs.push_back({name, {DType::f32, {1, 2, 3, 4}}});
  attention.outputs = {"y", "scores"};
  attention.nodes = {{"Attention", "attention", {"q", "k", "v"}, {"y", "", "", "scores"}, {}}};
  EXPECT_EQ(backend->why_not(attention, {}), std::nullopt);
  CompileOptions by_library;
  by_library.kernel = "onednn";
  EXPECT_THAT(backend->why_not(attention, by_library).value_or(""), testing::HasSubstr("does not tell its scores"));
  bool isa = false;
  for (const auto& [fact, value] : backend->facts()) isa = isa || (fact == "isa" && !value.empty());
  EXPECT_TRUE(isa);
}

// Alone an addition of integers has no kernel; where a network computes indices with it the operator's loops do it.
TEST(Onednn, NetworksMayComputeIndices) {
  if (!is_on("onednn")) GTEST_SKIP() << "onednn is off";
  const auto backend = open_backend("onednn");
  OperatorCase one;
  one.inputs = {{.spec = {DType::i64, {3}}}, {.spec = {DType::i64, {3}}}};
  EXPECT_THAT(backend->why_not(single_node_graph("Add", one), {}).value_or(""), testing::HasSubstr("not in i64"));
  Graph graph{.name = "moved rows"};
  graph.inputs = {{"table", {DType::f32, {5, 2}}}, {"rows", {DType::i64, {3}}}, {"by", {DType::i64, {3}}}};
  graph.outputs = {"y"};
  graph.nodes = {{"Add", "moved", {"rows", "by"}, {"indices"}, {}},
                 {"Gather", "taken", {"table", "indices"}, {"y"}, {}}};
  EXPECT_EQ(backend->why_not(graph, {}).value_or(""), "");
  ParameterSet none;
  const auto run = backend->compile(graph, none, {});
  run->write(Role::value, "table", Tensor::from<float>({5, 2}, {0, 1, 10, 11, 20, 21, 30, 31, 40, 41}));
  run->write(Role::value, "rows", Tensor::from<int64_t>({3}, {0, 2, 1}));
  run->write(Role::value, "by", Tensor::from<int64_t>({3}, {1, 2, 0}));
  run->forward({});
  EXPECT_THAT(floats(run->read(Role::value, "y")), ElementsAre(10, 11, 40, 41, 10, 11));
}

TEST(Onednn, FastLayoutsNeedNoReorderForward) {
  if (!is_on("onednn")) GTEST_SKIP() << "onednn is off";
  const auto backend = open_backend("onednn");
  for (const std::string op : {"Gemm", "MatMul", "Conv"}) {
    const OperatorEntry& entry = registered<operators>(op);
    const OperatorCase one = entry.describe(complete_values(op, entry, {}), DType::f32);
    ParameterSet fast, timed;
    EXPECT_EQ(backend->compile(single_node_graph(op, one), fast, {})->kernels()[0].second.find("reorder"),
              std::string::npos);
    CompileOptions inside;
    inside.time_reorders = true;
    if (op == "Conv") {
      EXPECT_NE(backend->compile(single_node_graph(op, one), timed, inside)->kernels()[0].second.find("reorder"),
                std::string::npos);
    }
  }
}

}  // namespace
}  // namespace d5
