// SPDX-License-Identifier: Apache-2.0
#include "d5/graph/evaluate.hpp"

#include <gmock/gmock.h>

#include "d5/backends/backend.hpp"
#include "d5/graph/fold.hpp"
#include "d5/graph/modernise.hpp"
#include "d5/graph/onnx/read.hpp"
#include "d5/graph/pieces.hpp"
#include "tests/unit/graph/graphs.hpp"

namespace d5 {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// x = (1, 1): sums 2, 5, 8, 11 (adding 1 and 2 while below 10), then doubled: 22, 44, 88, 176.
TEST(Evaluate, LoopWithBranches) {
  const Graph graph = modernise(read_onnx(data_file("branches.onnx")));
  const auto results = Evaluator(graph).run({{"x", floats({2}, {1, 1})}});
  EXPECT_THAT(results[1].tensor.values<float>(), ElementsAre(2, 5, 8, 11, 22, 44, 88, 176));
  EXPECT_THAT(results[0].tensor.values<float>(), ElementsAre(4 * 32, 7 * 32));
}

Graph counting_loop(bool ends) {
  Graph body{.name = "body",
             .inputs = {input("i", {}, DType::i64), input("c", {}, DType::boolean), input("v", {})},
             .outputs = {"again", "next"},
             .nodes = {node("Identity", {ends ? "c" : "yes"}, {"again"}), node("Add", {"v", "one"}, {"next"})}};
  body.constants["yes"] = Tensor::from<bool>({}, {true});
  body.constants["one"] = floats({}, {1});
  Graph graph{.name = "counts", .inputs = {input("n", {}, DType::i64), input("x", {})}, .outputs = {"y"}};
  graph.nodes = {node("Loop", {ends ? "n" : "", "", "x"}, {"y"}, {{"body", std::make_shared<const Graph>(body)}})};
  graph.nodes[0].name = "loop";
  return graph;
}

TEST(Evaluate, LoopsEnd) {
  const Graph graph = counting_loop(true);
  const auto run = [&](int64_t n) {
    return Evaluator(graph).run({{"n", longs({}, {n})}, {"x", floats({}, {0})}})[0].tensor.values<float>()[0];
  };
  EXPECT_EQ(run(0), 0);
  EXPECT_EQ(run(7), 7);
  const Graph endless = counting_loop(false);
  EvaluateOptions options;
  options.most_iterations = 1000;
  EXPECT_THAT(error_of([&] {
                Evaluator(endless, options).run({{"n", longs({}, {0})}, {"x", floats({}, {0})}});
              }),
              AllOf(HasSubstr("node 'loop' (Loop)"), HasSubstr("more than 1000 iterations")));
}

// The inner loop runs 60 times in each of 60 iterations: 100 of all loops are the most.
TEST(Evaluate, LoopsInLoopsEnd) {
  Graph inner{.name = "inner",
              .inputs = {input("j", {}, DType::i64), input("d", {}, DType::boolean)},
              .outputs = {"e"},
              .nodes = {node("Identity", {"d"}, {"e"})}};
  Graph outer{.name = "outer",
              .inputs = {input("i", {}, DType::i64), input("c", {}, DType::boolean)},
              .outputs = {"f"},
              .nodes = {node("Loop", {"x0", ""}, {}, {{"body", std::make_shared<const Graph>(inner)}}),
                        node("Identity", {"c"}, {"f"})}};
  Graph graph{.name = "g", .inputs = {input("x0", {}, DType::i64)}};
  graph.nodes = {node("Loop", {"x0", ""}, {}, {{"body", std::make_shared<const Graph>(outer)}})};
  EvaluateOptions options;
  options.most_iterations = 100;
  Evaluator evaluator(graph, options);
  EXPECT_THAT(error_of([&] { evaluator.run({{"x0", longs({}, {60})}}); }), HasSubstr("more than 100 iterations"));
  for (int again = 0; again < 2; ++again) EXPECT_EQ(error_of([&] { evaluator.run({{"x0", longs({}, {9})}}); }), "");
}

// Running sums along axis 0, backwards, and the last one as a state.
TEST(Evaluate, ScanBackwards) {
  Graph body{.name = "body",
             .inputs = {input("s", {2}), input("e", {2})},
             .outputs = {"t", "t2"},
             .nodes = {node("Add", {"s", "e"}, {"t"}), node("Identity", {"t"}, {"t2"})}};
  Graph graph{.name = "scan", .inputs = {input("x0", {2}), input("x1", {3, 2})}, .outputs = {"last", "all"}};
  graph.nodes = {node("Scan", {"x0", "x1"}, {"last", "all"},
                      {{"body", std::make_shared<const Graph>(body)},
                       {"num_scan_inputs", int64_t{1}},
                       {"scan_input_directions", std::vector<int64_t>{1}},
                       {"scan_output_axes", std::vector<int64_t>{1}}})};
  const auto results = run(graph, {floats({2}, {0, 0}), floats({3, 2}, {1, 2, 3, 4, 5, 6})});
  expect_near(results[0].tensor, {2}, {9, 12}, 0);
  expect_near(results[1].tensor, {2, 3}, {5, 8, 9, 6, 10, 12}, 0);
}

TEST(Evaluate, Sequences) {
  Graph graph{
      .name = "sequences", .inputs = {input("x0", {3, 2}), input("x1", {}, DType::i64)}, .outputs = {"y", "n", "z"}};
  graph.nodes = {node("SplitToSequence", {"x0"}, {"s"}, {{"keepdims", int64_t{0}}}),
                 node("SequenceAt", {"s", "x1"}, {"one"}),
                 node("SequenceInsert", {"s", "one"}, {"more"}),
                 node("SequenceErase", {"more", "x1"}, {"less"}),
                 node("SequenceLength", {"more"}, {"n"}),
                 node("ConcatFromSequence", {"less"}, {"y"}, {{"axis", int64_t{0}}, {"new_axis", int64_t{1}}}),
                 node("ConcatFromSequence", {"s"}, {"z"}, {{"axis", int64_t{0}}})};
  const Tensor x = floats({3, 2}, {1, 2, 3, 4, 5, 6});
  const auto results = run(graph, {x, longs({}, {-1})});
  expect_near(results[1].tensor, {}, {4}, 0);
  expect_near(results[0].tensor, {3, 2}, {1, 2, 3, 4, 5, 6}, 0);
  expect_near(results[2].tensor, {6}, {1, 2, 3, 4, 5, 6}, 0);
  EXPECT_THAT(error_of([&] { run(graph, {x, longs({}, {5})}); }), HasSubstr("position 5 is not in a sequence of 3"));
}

TEST(Evaluate, SequencesHoldTensorsAndAreBounded) {
  Graph graph{.name = "g", .inputs = {input("x0", {0})}, .outputs = {"n"}};
  graph.nodes = {node("SequenceConstruct", {"x0", "x0"}, {"s"}), node("SequenceConstruct", {"s", "s"}, {"t"}),
                 node("SequenceLength", {"t"}, {"n"})};
  EXPECT_THAT(error_of([&] { run(graph, {floats({0}, {})}); }), HasSubstr("a sequence of 2 is given; a tensor"));
  graph.nodes = {node("SequenceConstruct", {"x0", "x0"}, {"s"}), node("SequenceInsert", {"s", "x0"}, {"t"}),
                 node("SequenceInsert", {"t", "x0"}, {"u"}), node("SequenceLength", {"u"}, {"n"})};
  EXPECT_EQ(run(graph, {floats({0}, {})})[0].tensor.values<int64_t>()[0], 4);
  EvaluateOptions options;
  options.most_entries = 4;  // 2 and 3 are copied
  EXPECT_THAT(error_of([&] {
                Evaluator(graph, options).run({{"x0", floats({0}, {})}});
              }),
              HasSubstr("more than 4 entries"));
  EXPECT_GT(GraphValue::sequence({floats({0}, {}), floats({0}, {})}).bytes(), 2 * sizeof(Tensor));
}

TEST(Evaluate, InputsThatAreMissingAreNamed) {
  const auto body = std::make_shared<const Graph>(Graph{.name = "body"});
  for (const char* op : {"If", "SequenceMap", "SequenceAt", "SequenceInsert", "SequenceErase", "SequenceLength",
                         "SplitToSequence", "ConcatFromSequence", "OptionalGetElement"}) {
    Graph graph{.name = "g", .outputs = {"y"}};
    graph.nodes = {node(op, {}, {"y"}, {{"then_branch", body}, {"else_branch", body}, {"body", body}})};
    EXPECT_THAT(error_of([&] { run(graph, {}); }), HasSubstr(fmt::format("({}): input 0 is missing", op)));
  }
  Graph graph{.name = "g", .inputs = {input("x0", {1})}, .outputs = {"y"}};
  graph.nodes = {node("SequenceConstruct", {"x0"}, {"s"}), node("SequenceAt", {"s"}, {"y"})};
  EXPECT_THAT(error_of([&] { run(graph, {floats({1}, {1})}); }), HasSubstr("input 1 is missing"));
}

TEST(Evaluate, Optionals) {
  Graph graph{.name = "optionals", .outputs = {"has", "has_not"}};
  graph.constants["c"] = floats({1}, {1});
  graph.nodes = {node("Optional", {"c"}, {"full"}), node("Optional", {}, {"empty"}),
                 node("OptionalHasElement", {"full"}, {"has"}), node("OptionalHasElement", {"empty"}, {"has_not"})};
  const auto results = Evaluator(graph).run({});
  EXPECT_TRUE(results[0].tensor.values<bool>()[0]);
  EXPECT_FALSE(results[1].tensor.values<bool>()[0]);
  graph.nodes.push_back(node("OptionalGetElement", {"empty"}, {"got"}));
  graph.outputs = {"got"};
  EXPECT_THAT(error_of([&] { Evaluator(graph).run({}); }), HasSubstr("the optional holds nothing"));
}

TEST(Evaluate, MemoryIsBounded) {
  Graph graph{.name = "large", .inputs = {input("x0", {4}, DType::i64)}, .outputs = {"y"}};
  graph.nodes = {node("ConstantOfShape", {"x0"}, {"y"})};
  EXPECT_THAT(error_of([&] { run(graph, {longs({4}, {1000, 1000, 1000, 1000})}); }), HasSubstr("does not fit"));
  EXPECT_THAT(error_of([&] {
                Evaluator evaluator(graph);
                evaluator.run({});
              }),
              HasSubstr("input 'x0' has no value"));
}

TEST(Evaluate, UnknownOperatorsAreNamed) {
  Graph graph{
      .name = "g", .inputs = {input("x0", {4})}, .outputs = {"y"}, .nodes = {node("Frobnicate", {"x0"}, {"y"})}};
  EXPECT_EQ(unknown_operator(graph), "operator Frobnicate is not supported");
  EXPECT_THROW(Evaluator{graph}, CannotRun);
}

// The backend evaluates what it cannot lay out, and lays out the rest.
TEST(Evaluate, ReferenceRunsDynamicShapes) {
  Graph graph{.name = "dynamic", .inputs = {input("x", {4})}, .outputs = {"at", "twice"}};
  graph.nodes = {node("NonZero", {"x"}, {"at"}), node("Add", {"at", "at"}, {"twice"})};
  const auto backend = open_backend("reference");
  EXPECT_EQ(backend->why_not(graph, {}), std::nullopt);
  CompileOptions training;
  training.mode = Mode::training;
  EXPECT_THAT(backend->why_not(graph, training).value_or(""), HasSubstr("there is no gradient"));
  ParameterSet parameters;
  const auto executable = backend->compile(graph, parameters, {});
  for (const auto& [values, wanted] :
       {std::pair<std::vector<float>, std::vector<int64_t>>{{0, 1, 0, 2}, {2, 6}}, {{5, 0, 0, 0}, {0}}}) {
    executable->write(Executable::Role::value, "x", floats({4}, values));
    executable->forward({});
    const Tensor twice = executable->read(Executable::Role::value, "twice");
    EXPECT_THAT(twice.values<int64_t>(), testing::ElementsAreArray(wanted));
  }
  EXPECT_THAT(error_of([&] { executable->backward({}); }), HasSubstr("no backward"));
  EXPECT_THAT(error_of([&] {
                executable->write(Executable::Role::value, "x", longs({4}, {1, 2, 3, 4}));
              }),
              HasSubstr("input 'x'"));
}

TEST(Fold, ComputesWhatIsKnown) {
  Graph graph{
      .name = "fold", .inputs = {{.name = "x", .spec = {DType::f32, {2, 6}}, .symbols = {"N", ""}}}, .outputs = {"y"}};
  graph.constants = {
      {"a", floats({1}, {2})}, {"b", floats({1}, {3})}, {"rest", longs({1}, {-1})}, {"zero", longs({1}, {0})}};
  graph.nodes = {
      node("Mul", {"a", "b"}, {"six"}),         node("Shape", {"x"}, {"shape"}),
      node("Gather", {"shape", "zero"}, {"n"}), node("Concat", {"n", "rest"}, {"to"}, {{"axis", int64_t{0}}}),
      node("Mul", {"x", "six"}, {"m"}),         node("Reshape", {"m", "to"}, {"y"})};
  Graph with_free_size = graph;
  fold_constants(with_free_size, {.bound_sizes = false});
  EXPECT_EQ(with_free_size.nodes.size(), 5u);  // the batch is not known; only the product of constants went
  fold_constants(graph);
  ASSERT_EQ(graph.nodes.size(), 2u);
  EXPECT_EQ(graph.constants.at("six").values<float>()[0], 6);
  EXPECT_THAT(graph.constants.at("to").values<int64_t>(), ElementsAre(2, -1));
  EXPECT_FALSE(graph.constants.contains("a"));  // nobody reads it any more
}

TEST(Fold, TakesTheKnownBranch) {
  Graph yes{.name = "yes", .outputs = {"r"}, .nodes = {node("Add", {"x", "k"}, {"r"})}};
  yes.constants["k"] = floats({1}, {5});
  Graph no{.name = "no", .outputs = {"x"}};
  Graph graph{.name = "if", .inputs = {input("x", {1})}, .outputs = {"y"}};
  graph.constants["c"] = Tensor::from<bool>({}, {true});
  graph.nodes = {
      node("If", {"c"}, {"y"},
           {{"then_branch", std::make_shared<const Graph>(yes)}, {"else_branch", std::make_shared<const Graph>(no)}})};
  graph.nodes[0].name = "choice";
  Graph other = graph;
  fold_constants(graph);
  EXPECT_EQ(graph.nodes[0].op, "Add");
  EXPECT_EQ(Evaluator(graph).run({{"x", floats({1}, {1})}})[0].tensor.values<float>()[0], 6);
  other.constants["c"] = Tensor::from<bool>({}, {false});
  fold_constants(other);
  EXPECT_EQ(Evaluator(other).run({{"x", floats({1}, {1})}})[0].tensor.values<float>()[0], 1);
}

// Random numbers are not constants.
TEST(Fold, LeavesWhatIsRandomAndWhatIsLarge) {
  Graph graph{.name = "keep", .outputs = {"y"}};
  graph.constants["shape"] = longs({2}, {4096, 4096});
  graph.nodes = {node("ConstantOfShape", {"shape"}, {"y"})};
  fold_constants(graph);
  EXPECT_EQ(graph.nodes.size(), 1u);
  Graph slow{.name = "slow", .outputs = {"y"}, .nodes = {node("MatMul", {"a", "a"}, {"y"})}};
  slow.constants["a"] = Tensor(DType::f32, {1000, 1000});
  fold_constants(slow);  // 2e9 operations
  EXPECT_EQ(slow.nodes.size(), 1u);
}

TEST(Pieces, CutAndPutTogether) {
  const Tensor x = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  expect_near(take_range(x, 1, 1, 2), {2, 2}, {2, 3, 5, 6}, 0);
  expect_near(take_index(x, 0, 1), {3}, {4, 5, 6}, 0);
  expect_near(concatenate({x, take_range(x, 1, 0, 1)}, 1), {2, 4}, {1, 2, 3, 1, 4, 5, 6, 4}, 0);
  expect_near(stack({x, x}, 1), {2, 2, 3}, {1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}, 0);
  const Tensor words = Tensor::from<std::string>({2}, {"a", "b"});
  EXPECT_THAT(stack({words, words}, 1).values<std::string>(), ElementsAre("a", "a", "b", "b"));
  EXPECT_THAT(error_of([&] { take_range(x, 1, 2, 2); }), HasSubstr("is not in 2x3"));
  EXPECT_THAT(error_of([&] { concatenate({x, words}, 0); }), HasSubstr("cannot be put together"));
}

}  // namespace
}  // namespace d5
