// SPDX-License-Identifier: Apache-2.0
// ONNX files as cases of level 1: sizes, whole numbers in and out, values that are not finite, shapes that depend on
// values, words that only f32 has.
#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>

#include "d5/bench/net_case.hpp"
#include "d5/bench/net_oracle_cache.hpp"
#include "d5/bench/net_problem.hpp"
#include "d5/bench/session.hpp"
#include "d5/core/rng.hpp"
#include "d5/graph/onnx/write.hpp"
#include "d5/graph/transforms/precision.hpp"
#include "tests/unit/graph/graphs.hpp"

namespace d5 {
namespace {

using ::testing::HasSubstr;

class NetFiles : public ::testing::Test {
 protected:
  NetFiles() { setenv("XDG_CACHE_HOME", (folder_ / "cache").c_str(), 1); }

  // A file of one input x (where it has a shape) and whatever the nodes make of it.
  Json file(Graph graph) {
    graph.name = "g";
    write_onnx(graph, folder_ / "model.onnx");
    return {{"kind", "net"}, {"network", (folder_ / "model.onnx").string()}, {"backend", "reference"}};
  }
  static Outcome check(Json fields, const Json& more = Json::object()) {
    fields.update(more);
    const Bench& bench = bench_of(fields);
    return bench.open(bench.complete(fields))->prepare(Depth::check);
  }

  Folder folder_;
};

bool is_on(const std::string& backend) {
  for (const BackendStatus& status : backend_statuses())
    if (status.name == backend) return status.available;
  return false;
}

GraphInput batched(const std::string& name, Shape shape, DType type = DType::f32,
                   std::vector<std::string> symbols = {"N"}) {
  GraphInput one = input(name, std::move(shape), type);
  symbols.resize(one.spec.shape.rank());
  one.symbols = std::move(symbols);
  return one;
}

// scores = table[ids] w: the only float that comes from outside is in the weights.
TEST_F(NetFiles, WholeNumbersInHaveATolerance) {
  Graph graph{.inputs = {batched("ids", {1, 2}, DType::i64)}, .outputs = {"y"}};
  Tensor table(DType::f32, {9, 4}), w(DType::f32, {4, 3});
  fill_normal(table, Rng(1), 0, 1);
  fill_normal(w, Rng(2), 0, 1);
  graph.constants = {{"table", table}, {"w", w}};
  graph.nodes = {node("Gather", {"table", "ids"}, {"h"}), node("MatMul", {"h", "w"}, {"y"})};
  const Outcome outcome = check(file(graph), {{"batch", 5}});
  EXPECT_EQ(outcome.status, "passed") << outcome.reason;
  EXPECT_GT(outcome.details["check"]["worst_share_of_tolerance"], 0);
}

TEST_F(NetFiles, AFixedBatchIsWhatItIs) {
  Graph graph{.inputs = {input("x", {8, 4})}, .outputs = {"y"}, .nodes = {node("Softmax", {"x"}, {"y"})}};
  const Json fields = file(graph);
  for (const int batch : {1, 8}) {
    const Outcome outcome = check(fields, {{"batch", batch}});
    EXPECT_EQ(outcome.status, "passed") << outcome.reason;
    EXPECT_EQ(outcome.details["samples_per_step"], 8);
    EXPECT_EQ(outcome.details["check"]["compared"], 32);
    EXPECT_EQ(outcome.details.value("warnings", Json::array()).size(), batch == 1 ? 1u : 0u);
  }
  EXPECT_THROW(check(fields, {{"batch", 4}}), UsageError);
  EXPECT_EQ(check(fields, {{"transform", "accumulate:2"}, {"pass", "step"}}).status, "unsupported");
}

// As silero-vad has it: a state whose batch is its second axis, and one that has none at all.
TEST_F(NetFiles, StatesNeedNoRowsOfSamples) {
  Graph graph{.inputs = {input("k", {4}), batched("x", {1, 4}), batched("state", {2, 1, 4}, DType::f32, {"", "N", ""})},
              .outputs = {"y", "next"}};
  graph.nodes = {node("Add", {"x", "k"}, {"y"}), node("Add", {"state", "y"}, {"next"})};
  const Outcome outcome = check(file(graph), {{"batch", 6}});
  EXPECT_EQ(outcome.status, "passed") << outcome.reason;
  EXPECT_EQ(outcome.details["samples_per_step"], 6);
  EXPECT_EQ(outcome.details["check"]["compared"], 6 * 4 + 2 * 6 * 4) << "the whole of it";
}

TEST_F(NetFiles, FreeSizesAreBoundByName) {
  Graph graph{.inputs = {batched("x", {1, 1, 1, 1}, DType::f32, {"N", "", "H", "W"})}, .outputs = {"y"}};
  graph.nodes = {node("MaxPool", {"x"}, {"y"}, {{"kernel_shape", std::vector<int64_t>{3, 3}}})};
  const Json fields = file(graph);
  Outcome outcome = check(fields, {{"batch", 2}, {"sizes", "H=5,W=6"}});
  EXPECT_EQ(outcome.status, "passed") << outcome.reason;
  EXPECT_EQ(outcome.details["check"]["compared"], 2 * 3 * 4);
  EXPECT_FALSE(outcome.details.contains("warnings"));
  outcome = check(fields, {{"sizes", "N=3,H=5,W=6"}});
  EXPECT_EQ(outcome.details["samples_per_step"], 3) << "a size that is given is fixed";
  EXPECT_THROW(check(fields, {{"sizes", "D=5"}}), UsageError);
  EXPECT_THROW(check(fields, {{"sizes", "H"}}), FieldError);
  EXPECT_THROW(check({{"kind", "net"}, {"network", "lenet"}}, {{"sizes", "N=5"}}), FieldError);

  graph.nodes = {node("Relu", {"x"}, {"y"})};
  outcome = check(file(graph));
  ASSERT_EQ(outcome.details["warnings"].size(), 1u);
  EXPECT_THAT(outcome.details["warnings"][0].get<std::string>(), HasSubstr("H, W"));
}

TEST_F(NetFiles, AnInputWithoutAShapeIsUnsupported) {
  Graph graph{.inputs = {input("x", {})}, .outputs = {"y"}, .nodes = {node("Relu", {"x"}, {"y"})}};
  graph.inputs[0].symbols = {"*"};
  const Json fields = file(graph);
  for (const char* kind : {"net", "net-validate", "net-context"}) {
    const Outcome outcome = check(fields, {{"kind", kind}});
    EXPECT_EQ(outcome.status, "unsupported") << kind;
    EXPECT_THAT(outcome.reason, HasSubstr("input 'x'"));
  }
}

// The bytes of a file have the types that they have.
TEST_F(NetFiles, AnElementTypeIsATransform) {
  Graph graph{.inputs = {batched("x", {1, 4})}, .outputs = {"y"}, .nodes = {node("Softmax", {"x"}, {"y"})}};
  const Json fields = file(graph);
  try {
    check(fields, {{"dtype", "bf16"}});
    ADD_FAILURE() << "bf16 was taken";
  } catch (const FieldError& error) {
    EXPECT_THAT(error.what(), HasSubstr("--transform precision:bf16"));
  }
  EXPECT_EQ(check(fields, {{"transform", "precision:bf16"}}).status, "passed");
}

TEST_F(NetFiles, WordsOfF32AreSaidInDouble) {
  Graph graph{.inputs = {batched("x", {1, 4})}, .outputs = {"y", "random", "mean"}};
  graph.constants["scale"] = floats({4}, {1, 2, 3, 4});
  graph.nodes = {node("Constant", {}, {"two"}, {{"value_float", 2.0}}),
                 node("Constant", {}, {"some"}, {{"value_floats", std::vector<double>{0.1, 2, 3, 4}}}),
                 node("Mul", {"x", "two"}, {"a"}),
                 node("Mul", {"a", "some"}, {"b"}),
                 node("Shape", {"b"}, {"s"}),
                 node("ConstantOfShape", {"s"}, {"zeros"}),
                 node("Add", {"b", "zeros"}, {"y"}),
                 node("RandomNormal", {}, {"r"}, {{"shape", std::vector<int64_t>{4}}}),
                 node("Add", {"r", "two"}, {"random"}),
                 node("LayerNormalization", {"y", "scale"}, {"n", "m"}),
                 node("Add", {"m", "two"}, {"mean"})};
  const Specs specs = infer_specs(with_float_type(graph, DType::f64));
  for (const char* name : {"two", "some", "zeros", "r", "m"}) EXPECT_EQ(specs.at(name).dtype, DType::f64) << name;
  EXPECT_EQ(specs.at("some").known->values<double>()[0], static_cast<double>(0.1F));
  graph.nodes.erase(graph.nodes.begin() + 7, graph.nodes.end());
  graph.outputs = {"y"};
  const Outcome outcome = check(file(graph), {{"batch", 3}});
  EXPECT_EQ(outcome.status, "passed") << outcome.reason;
}

// As exporters write a variance. A negative base has no logarithm, which the bound of a power asks for.
TEST_F(NetFiles, SquaresOfNegativeNumbersHaveATolerance) {
  Graph graph{.inputs = {batched("x", {1, 50})}, .outputs = {"y"}};
  graph.constants["two"] = floats({}, {2});
  graph.nodes = {node("Relu", {"x"}, {"r"}), node("Sub", {"r", "x"}, {"s"}), node("Neg", {"s"}, {"n"}),
                 node("Pow", {"n", "two"}, {"y"})};
  const Outcome outcome = check(file(graph), {{"batch", 2}});
  EXPECT_EQ(outcome.status, "passed") << outcome.reason;
}

TEST_F(NetFiles, DynamicQuantisationIsCheckedInDouble) {
  Graph graph{.inputs = {batched("x", {1, 4})}, .outputs = {"y"}};
  graph.constants["w"] = Tensor::from<int64_t>({4, 2}, {1, -3, 5, 100, -7, 8, 9, -50}).cast(DType::i8);
  graph.nodes = {node("DynamicQuantizeLinear", {"x"}, {"q", "s", "z"}), node("MatMulInteger", {"q", "w", "z"}, {"i"}),
                 node("Cast", {"i"}, {"f"}, {{"to", int64_t{1}}}), node("Mul", {"f", "s"}, {"y"})};
  const Outcome outcome = check(file(graph), {{"batch", 2}});
  EXPECT_EQ(outcome.status, "passed") << outcome.reason;
}

// ONNX knows the results of some operators as f32 alone. The bound of a sum of four products and an intercept is far
// above the rounding of what is stored, 6e-8 of the result.
TEST_F(NetFiles, ResultsThatAreAlwaysF32AreCheckedInDouble) {
  Graph graph{.name = "g", .inputs = {batched("x", {2, 4})}, .outputs = {"scores", "y"}};
  graph.constants["half"] = floats({1}, {0.5F});
  graph.nodes = {node("ai.onnx.ml:LinearRegressor", {"x"}, {"scores"},
                      {{"coefficients", std::vector<double>{1, -2, 3, 4}}, {"intercepts", std::vector<double>{0.1}}}),
                 node("Mul", {"scores", "half"}, {"y"})};
  const Outcome outcome = check(file(graph), {{"batch", 2}});
  EXPECT_EQ(outcome.status, "passed") << outcome.reason;
  for (size_t i = 0; i < 2; ++i) graph.nodes[i].name = std::to_string(i);
  NetProblem problem = make_net_inputs(graph, Mode::inference, 1);
  add_expected(graph, Mode::inference, Math::strict, 1, problem);
  double square = 0;
  for (const double score : problem.expected[0].values.values<double>()) square += score * score;
  EXPECT_GT(problem.expected[0].tolerance, 5 * 0x1p-24 * std::sqrt(square));
}

// y learns by the weights, z depends on nothing that could.
TEST_F(NetFiles, OnlyWhatDependsOnParametersLearns) {
  Graph graph{.inputs = {batched("x", {1, 3})}, .outputs = {"y", "z"}};
  graph.constants["w"] = floats({3, 2}, {1, 2, 3, 4, 5, 6});
  graph.nodes = {node("MatMul", {"x", "w"}, {"y"}), node("Relu", {"x"}, {"z"})};
  const Outcome outcome = check(file(graph), {{"pass", "step"}, {"batch", 4}});
  EXPECT_EQ(outcome.status, "passed") << outcome.reason;
  graph.outputs = {"z"};
  graph.nodes.erase(graph.nodes.begin());
  graph.constants.clear();
  const Outcome nothing = check(file(graph), {{"pass", "step"}});
  EXPECT_EQ(nothing.status, "unsupported");
  EXPECT_THAT(nothing.reason, HasSubstr("nothing is learned"));
}

TEST_F(NetFiles, AnOperatorWithoutAGradientIsNamed) {
  Graph graph{.inputs = {batched("x", {1, 2, 2})}, .outputs = {"y"}};
  graph.constants["w"] = floats({2, 2}, {1, 2, 3, 4});
  graph.nodes = {node("Mul", {"x", "w"}, {"h"}), node("Det", {"h"}, {"y"})};
  EXPECT_EQ(check(file(graph)).status, "passed");
  const Outcome step = check(file(graph), {{"pass", "step"}});
  EXPECT_EQ(step.status, "unsupported");
  EXPECT_THAT(step.reason, HasSubstr("(Det): it has no gradient"));
}

// Positions that a network makes from a constant length: more than are looked at while shapes are inferred.
TEST_F(NetFiles, KnownValuesMayBeLarge) {
  Graph graph{.inputs = {input("x", {5000})}, .outputs = {"y"}};
  graph.constants = {
      {"from", floats({}, {0})}, {"to", floats({}, {5000})}, {"step", floats({}, {1})}, {"size", longs({1}, {5000})}};
  graph.nodes = {node("Range", {"from", "to", "step"}, {"r"}), node("ConstantOfShape", {"size"}, {"c"}),
                 node("Add", {"x", "r"}, {"a"}), node("Add", {"a", "c"}, {"y"})};
  for (const std::string backend : {"reference", "torch"}) {
    if (!is_on(backend)) continue;
    const Outcome outcome = check(file(graph), {{"backend", backend}});
    EXPECT_EQ(outcome.status, "passed") << backend << ": " << outcome.reason;
  }
}

// Ones are scale and variance, zeros are bias and mean of both layers, as an exporter stores what was never trained.
TEST_F(NetFiles, EqualTensorsThatAreStoredOnceLearnApart) {
  Graph graph{.inputs = {batched("x", {1, 4, 3, 3})}, .outputs = {"y"}};
  graph.constants = {{"ones", floats({4}, {1, 1, 1, 1})}, {"zeros", floats({4}, {0, 0, 0, 0})}};
  graph.nodes = {node("BatchNormalization", {"x", "ones", "zeros", "zeros", "ones"}, {"h"}), node("Tanh", {"h"}, {"t"}),
                 node("BatchNormalization", {"t", "ones", "zeros", "zeros", "ones"}, {"y"})};
  for (const std::string backend : {"reference", "onednn", "torch"}) {
    if (!is_on(backend)) continue;
    const Outcome outcome = check(file(graph), {{"pass", "step"}, {"batch", 8}, {"backend", backend}});
    EXPECT_EQ(outcome.status, "passed") << backend << ": " << outcome.reason;
  }
}

// PyTorch names all results of a recurrent node; a network reads the states of all steps or the last one.
TEST_F(NetFiles, RecurrentResultsThatNobodyReadsHaveNoGradient) {
  for (const std::string op : {"RNN", "GRU", "LSTM"})
    for (const std::string read : {"all", "last"}) {
      const Index gates = op == "RNN" ? 1 : op == "GRU" ? 3 : 4, hidden = 2, inputs = 3;
      Graph graph{.inputs = {input("x", {5, 4, inputs})}, .outputs = {"y"}};
      graph.constants = {{"w", Tensor(DType::f32, {1, gates * hidden, inputs})},
                         {"r", Tensor(DType::f32, {1, gates * hidden, hidden})},
                         {"two", floats({}, {2})}};
      fill_normal(graph.constants["w"], Rng(1), 0, 1);
      fill_normal(graph.constants["r"], Rng(2), 0, 1);
      graph.nodes = {node(op, {"x", "w", "r"}, {"all", "last"}, {{"hidden_size", int64_t{hidden}}}),
                     node("Mul", {read, "two"}, {"y"})};
      if (op == "LSTM") graph.nodes[0].outputs.push_back("cell");
      if (op == "GRU") graph.nodes[0].attributes.set("linear_before_reset", int64_t{1});
      for (const std::string backend : {"reference", "onednn", "torch"}) {
        if (!is_on(backend)) continue;
        const Outcome outcome = check(file(graph), {{"pass", "step"}, {"backend", backend}});
        EXPECT_EQ(outcome.status, "passed") << op << " " << read << " " << backend << ": " << outcome.reason;
      }
    }
}

// Every row of the scores is shown to the softmax; where all were hidden, any share would be within rounding.
TEST_F(NetFiles, MasksHideNothing) {
  Graph graph{.inputs = {input("x", {64, 3}), input("attention_mask", {64, 3}, DType::i64)}, .outputs = {"y"}};
  graph.constants = {{"one", floats({}, {1})}, {"lowest", floats({}, {-3.4028235e38F})}};
  graph.nodes = {node("Cast", {"attention_mask"}, {"m"}, {{"to", int64_t{1}}}), node("Sub", {"one", "m"}, {"hidden"}),
                 node("Mul", {"hidden", "lowest"}, {"far"}), node("Add", {"x", "far"}, {"scores"}),
                 node("Softmax", {"scores"}, {"y"})};
  const Outcome outcome = check(file(graph));
  EXPECT_EQ(outcome.status, "passed") << outcome.reason;
}

// Attention as PyTorch writes it: hidden scores are -infinity, and a row that is hidden as a whole becomes zeros.
TEST_F(NetFiles, WhatIsHiddenByInfinityStaysHidden) {
  Graph graph{.inputs = {input("x", {3, 3})}, .outputs = {"y"}};
  const float hidden = -INFINITY;
  graph.constants = {{"mask", floats({3, 3}, {0, hidden, hidden, 0, 0, hidden, 0, 0, 0})}, {"zero", floats({}, {0})}};
  graph.nodes = {node("Add", {"x", "mask"}, {"scores"}), node("Softmax", {"scores"}, {"s"}),
                 node("IsNaN", {"s"}, {"none"}), node("Where", {"none", "zero", "s"}, {"y"})};
  const Outcome outcome = check(file(graph));
  EXPECT_EQ(outcome.status, "passed") << outcome.reason;
}

// A file says that numbers are drawn, not how: two libraries differ, and neither is wrong.
TEST_F(NetFiles, RandomNumbersOfAnotherLibraryAreMistrusted) {
  Graph graph{.inputs = {input("x", {4, 4})}, .outputs = {"y"}};
  graph.nodes = {node("RandomUniformLike", {"x"}, {"r"}), node("Add", {"x", "r"}, {"y"})};
  EXPECT_EQ(check(file(graph)).status, "passed");
  if (!is_on("onnxruntime")) GTEST_SKIP() << "onnxruntime is off";
  const Outcome outcome = check(file(graph), {{"backend", "onnxruntime"}});
  EXPECT_EQ(outcome.status, "mistrusted") << outcome.reason;
  EXPECT_THAT(outcome.reason, HasSubstr("RandomUniformLike"));
}

// The logarithm of normal numbers is NaN for half of them: nothing can be said, today and with a cache.
TEST_F(NetFiles, WhatIsNotFiniteIsMistrusted) {
  Graph graph{.inputs = {input("x", {16})}, .outputs = {"y"}, .nodes = {node("Log", {"x"}, {"y"})}};
  const Json fields = file(graph);
  for (int i = 0; i < 2; ++i) {
    const Outcome outcome = check(fields);
    EXPECT_EQ(outcome.status, "mistrusted") << outcome.reason;
    EXPECT_THAT(outcome.reason, HasSubstr("of y are not finite"));
  }
}

TEST_F(NetFiles, ACacheWithoutNumbersIsNone) {
  NetProblem problem;
  problem.expected.push_back({"y", Executable::Role::value, Tensor::from<double>({2}, {1, 2}), 0.5});
  save_expected("key", problem);
  EXPECT_TRUE(load_expected("key", problem));
  const auto path = folder_ / "cache/d5/oracle/key.bin";
  ASSERT_TRUE(std::filesystem::exists(path));
  std::string bytes = file_bytes(path);
  const size_t at = bytes.find("0.5");
  ASSERT_NE(at, std::string::npos);
  std::ofstream(path, std::ios::binary) << bytes.replace(at, 3, "null");
  EXPECT_FALSE(load_expected("key", problem));
  problem.expected[0].tolerance = NAN;
  std::filesystem::remove(path);
  save_expected("key", problem);
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(NetFiles, WholeNumbersOutAreCompared) {
  Graph graph{.inputs = {batched("x", {1, 5})}, .outputs = {"at", "sizes", "steps"}};
  graph.constants = {{"scale", floats({}, {0.02F})}, {"zero", Tensor::scalar(128, DType::u8)}};
  graph.nodes = {node("ArgMax", {"x"}, {"at"}, {{"axis", int64_t{1}}}), node("Shape", {"x"}, {"sizes"}),
                 node("QuantizeLinear", {"x", "scale", "zero"}, {"steps"})};
  const Outcome outcome = check(file(graph), {{"batch", 7}});
  EXPECT_EQ(outcome.status, "passed") << outcome.reason;
  EXPECT_EQ(outcome.details["check"]["integers"]["compared"], 7 + 2 + 7 * 5);
  EXPECT_EQ(outcome.details["check"]["integers"]["differ"], 0);
  EXPECT_EQ(outcome.details["check"]["integers"]["may_differ_by_rounding"], 0);
}

// Sums of a thousand numbers, in steps of their rounding: most steps are decided by the order of the sum.
TEST_F(NetFiles, WholeNumbersBehindRoundingMayDifferAsOftenAsItMovesThem) {
  Graph graph{.inputs = {batched("x", {1, 1000})}, .outputs = {"steps"}};
  graph.constants["scale"] = floats({}, {1e-5F});
  graph.constants["axes"] = longs({1}, {1});
  graph.nodes = {node("ReduceSum", {"x", "axes"}, {"sum"}), node("Div", {"sum", "scale"}, {"large"}),
                 node("Cast", {"large"}, {"steps"}, {{"to", int64_t{7}}})};
  const Outcome outcome = check(file(graph), {{"batch", 2}});
  EXPECT_EQ(outcome.status, "mistrusted") << outcome.reason;
  EXPECT_GT(outcome.details["check"]["integers"]["may_differ_by_rounding"], 0);
}

TEST_F(NetFiles, AWrongWholeNumberIsSeen) {
  Graph graph{.name = "g", .inputs = {batched("x", {1, 5})}, .outputs = {"at"}};
  graph.nodes = {node("ArgMax", {"x"}, {"at"}, {{"axis", int64_t{1}}})};
  graph.nodes[0].name = "n";
  NetProblem problem = make_net_inputs(graph, Mode::inference, 1);
  add_expected(graph, Mode::inference, Math::strict, 1, problem);
  const auto backend = open_backend("reference");
  ParameterSet parameters;
  const auto executable = backend->compile(graph, parameters, {});
  write_values(problem, *executable);
  executable->forward({});
  EXPECT_TRUE(check_network(problem, *executable).passed);
  problem.expected[0].values.values<int64_t>()[0] ^= 1;
  const NetCheck wrong = check_network(problem, *executable);
  EXPECT_FALSE(wrong.passed);
  EXPECT_THAT(wrong.reason, HasSubstr("1 of 1 integers differ"));
}

// Shapes that only values tell, and bodies: the reference evaluates them, and is timed.
TEST_F(NetFiles, EvaluatedNetworksRun) {
  Graph graph{.inputs = {input("x", {3, 4})}, .outputs = {"where", "y"}};
  const auto branch = [](const char* op) {
    return std::make_shared<const Graph>(Graph{.name = op, .outputs = {"b"}, .nodes = {node(op, {"x"}, {"b"})}});
  };
  graph.constants["zero"] = floats({}, {0});
  graph.nodes = {node("NonZero", {"x"}, {"where"}), node("ReduceSum", {"x"}, {"s"}, {{"keepdims", int64_t{0}}}),
                 node("Greater", {"s", "zero"}, {"c"}),
                 node("If", {"c"}, {"v"}, {{"then_branch", branch("Exp")}, {"else_branch", branch("Neg")}}),
                 node("Softmax", {"v"}, {"y"})};
  const Json fields = file(graph);
  const Bench& bench = bench_of(fields);
  const Json complete = bench.complete(fields);
  bench.check_case(complete);
  const auto session = bench.open(complete);
  const Outcome outcome = session->prepare(Depth::measure);
  EXPECT_EQ(outcome.status, "passed") << outcome.reason;
  EXPECT_EQ(outcome.details["check"]["compared"], 2 * 12 + 12);
  EXPECT_EQ(session->run({}).seconds.size(), 1u);
  EXPECT_EQ(session->finish().status, "passed");
  EXPECT_EQ(check(fields, {{"pass", "step"}}).status, "unsupported");
  EXPECT_EQ(check(fields, {{"kind", "net-validate"}}).status, "unsupported");
}

}  // namespace
}  // namespace d5
