// SPDX-License-Identifier: Apache-2.0
// Whole networks: fused, in fast layouts and with shared memory they compute what the reference computes node by node,
// forward and backward.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "d5/core/rng.hpp"
#include "small_networks.hpp"

namespace d5 {
namespace {

using Role = Executable::Role;

bool is_on(const std::string& backend) {
  for (const BackendStatus& status : backend_statuses())
    if (status.name == backend) return status.available;
  return false;
}

// Uniform in [-1, 1); variances and scales in [0.5, 1.5). With `integers` small whole numbers instead.
Tensor random_values(const std::string& name, const TensorSpec& spec, bool integers) {
  const Rng rng(7, stream_of(name));
  const Tensor tensor(spec.dtype, spec.shape);
  const bool positive = name.ends_with(".var") || name.ends_with(".scale");
  for (Index i = 0; i < tensor.elements(); ++i) {
    const double u = rng.uniform(static_cast<uint64_t>(i));
    tensor.values<float>()[static_cast<size_t>(i)] = static_cast<float>(integers   ? std::floor(3 * u) - 1
                                                                        : positive ? 0.5 + u
                                                                                   : 2 * u - 1);
  }
  return tensor;
}

struct Results {
  std::map<std::string, Tensor> values, gradients;
};

// Everything that can be read: outputs, gradients of inputs and parameters, and what is kept.
Results run(const Graph& graph, const std::string& backend, CompileOptions options, bool integers = false,
            int repeats = 2) {
  const auto opened = open_backend(backend);
  ParameterSet parameters;
  if (const auto reason = opened->why_not(graph, options)) throw Error("{}", *reason);
  const auto executable = opened->compile(graph, parameters, options);
  const Specs specs = infer_specs(graph);
  const int slot = options.slots - 1;
  for (const GraphInput& input : graph.inputs)
    executable->write(Role::value, input.name, random_values(input.name, input.spec, integers),
                      input.parameter ? 0 : slot);
  const bool training = options.mode == Mode::training;
  const auto has_gradient = [&](const std::string& name) {
    try {
      executable->read(Role::gradient, name, slot);
      return true;
    } catch (const Error&) {
      return false;
    }
  };
  if (training)
    for (const std::string& name : graph.outputs)
      executable->write(Role::gradient, name, random_values("seed of " + name, specs.at(name), integers), slot);
  for (int i = 0; i < repeats; ++i) {
    executable->forward({.slot = slot});
    if (training) executable->backward({.slot = slot});
  }
  Results results;
  for (const auto& [name, spec] : specs) {
    if (spec.dtype != DType::f32 || graph.constants.contains(name)) continue;
    const bool outer = std::ranges::find(graph.outputs, name) != graph.outputs.end();
    if (outer || options.keeps(name)) results.values[name] = executable->read(Role::value, name, slot);
    const bool input =
        std::ranges::any_of(graph.inputs, [&, &name = name](const GraphInput& in) { return in.name == name; });
    if (training && (input || options.keeps(name)) && has_gradient(name))
      results.gradients[name] = executable->read(Role::gradient, name, slot);
  }
  return results;
}

double largest(const Tensor& tensor) {
  double most = 0;
  for (const float v : tensor.values<float>()) most = std::max(most, std::abs(static_cast<double>(v)));
  return most;
}

// First order: each node adds at most growth(terms) rounding errors relative to the size of its result, and passes on
// those of its inputs. `terms`: the longest sum of the network.
void expect_close(const std::map<std::string, Tensor>& actual, const std::map<std::string, Tensor>& expected,
                  size_t nodes, double terms, bool exact) {
  ASSERT_EQ(actual.size(), expected.size());
  const double relative = exact ? 0 : static_cast<double>(nodes) * 6 * std::sqrt(terms) * 0x1p-24;
  for (const auto& [name, tensor] : expected) {
    const Tensor& got = actual.at(name);
    ASSERT_EQ(got.shape(), tensor.shape()) << name;
    const double tolerance = relative * largest(tensor);
    size_t wrong = 0;
    double worst = 0;
    for (size_t i = 0; i < tensor.values<float>().size(); ++i) {
      const double error = std::abs(static_cast<double>(got.values<float>()[i]) - tensor.values<float>()[i]);
      worst = std::max(worst, error);
      if (!(error <= tolerance)) ++wrong;
    }
    EXPECT_EQ(wrong, 0u) << name << ": worst " << worst << ", tolerance " << tolerance;
    EXPECT_GT(largest(tensor), 0) << name << ": a comparison of zeros has no power";
  }
}

struct Case {
  std::string name;
  Graph graph;
  double terms;
  bool exact = false;  // small integers stay integers
};

std::vector<Case> cases(bool training) {
  return {{"residual", small::residual(training), 600, false}, {"lenet", small::lenet(), 2000, false},
          {"mobile", small::mobile(training), 300, false},     {"shortcut", small::shortcut(training), 200, false},
          {"thin", small::thin(training), 100, false},         {"encoder", small::encoder(), 100, false},
          {"sixteen", small::sixteen(training), 300, false}};
}

class Networks : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_on("onednn")) GTEST_SKIP() << "onednn is off";
  }
  static CompileOptions training() {
    CompileOptions options;
    options.mode = Mode::training;
    options.input_gradients = true;
    return options;
  }
};

TEST_F(Networks, InferenceAgreesWithTheReference) {
  for (const Case& one : cases(false)) {
    SCOPED_TRACE(one.name);
    const Results expected = run(one.graph, "reference", {});
    expect_close(run(one.graph, "onednn", {}).values, expected.values, one.graph.nodes.size(), one.terms, false);
    CompileOptions plain;
    plain.layout = LayoutChoice::plain;
    expect_close(run(one.graph, "onednn", plain).values, expected.values, one.graph.nodes.size(), one.terms, false);
  }
}

TEST_F(Networks, TrainingAgreesWithTheReference) {
  for (const Case& one : cases(true)) {
    SCOPED_TRACE(one.name);
    const Results expected = run(one.graph, "reference", training());
    for (const int slots : {1, 2}) {
      CompileOptions options = training();
      options.slots = slots;
      const Results actual = run(one.graph, "onednn", options);
      expect_close(actual.values, expected.values, one.graph.nodes.size(), one.terms, false);
      expect_close(actual.gradients, expected.gradients, 2 * one.graph.nodes.size(), one.terms, false);
    }
  }
}

TEST_F(Networks, EveryValueCanBeKept) {
  for (const Case& one : cases(true)) {
    SCOPED_TRACE(one.name);
    CompileOptions options = training();
    options.keep_all = true;
    const Results expected = run(one.graph, "reference", options), actual = run(one.graph, "onednn", options);
    EXPECT_GT(actual.gradients.size(), one.graph.nodes.size());
    expect_close(actual.values, expected.values, one.graph.nodes.size(), one.terms, false);
    expect_close(actual.gradients, expected.gradients, 2 * one.graph.nodes.size(), one.terms, false);
  }
}

TEST_F(Networks, OneValueCanBeKept) {
  for (const Case& one : cases(true))
    for (const Node& node : one.graph.nodes) {
      SCOPED_TRACE(one.name + ": " + node.name);
      CompileOptions options = training();
      options.keep = {node.outputs[0]};
      const Results expected = run(one.graph, "reference", options), actual = run(one.graph, "onednn", options);
      expect_close(actual.values, expected.values, one.graph.nodes.size(), one.terms, false);
      expect_close(actual.gradients, expected.gradients, 2 * one.graph.nodes.size(), one.terms, false);
    }
}

// LeNet on whole numbers: every sum is exact in f32, so that a wrong term anywhere is seen.
TEST_F(Networks, WholeNumbersAgreeBitForBit) {
  const Graph graph = small::lenet();
  const Results expected = run(graph, "reference", training(), true), actual = run(graph, "onednn", training(), true);
  expect_close(actual.values, expected.values, 1, 1, true);
  expect_close(actual.gradients, expected.gradients, 1, 1, true);
}

TEST_F(Networks, FusedStepsNameTheirMembers) {
  const auto backend = open_backend("onednn");
  ParameterSet inference, train;
  const auto names = [](const Executable& executable) {
    std::vector<std::string> names;
    for (const auto& [name, kernel] : executable.kernels()) names.push_back(name);
    return names;
  };
  const Graph graph = small::residual(false);
  const auto steps = names(*backend->compile(graph, inference, {}));
  EXPECT_THAT(steps, testing::Contains("Conv0+BatchNormalization1+Relu2"));
  EXPECT_THAT(steps, testing::Contains("Conv7+BatchNormalization8+Add9+Relu10"));
  EXPECT_LT(steps.size(), graph.nodes.size() / 2);
  const auto trained = names(*backend->compile(small::residual(true), train, training()));
  EXPECT_THAT(trained, testing::Contains("BatchNormalization1+Relu2"));
  EXPECT_THAT(trained, testing::Contains("BatchNormalization8+Add9+Relu10"));
}

TEST_F(Networks, SliceAndPadWorkInTheOrderTheyMeet) {
  ParameterSet parameters;
  const auto run = open_backend("onednn")->compile(small::shortcut(true), parameters, training());
  std::vector<std::string> conversions;
  for (const auto& [name, kernel] : run->kernels())
    if (name.find(" to ") != std::string::npos) conversions.push_back(name);
  EXPECT_THAT(conversions, testing::ElementsAre("x to channels last", "Conv10.y (channels last) to row-major"));
}

TEST_F(Networks, KnownResultsLieInTheOrderTheyMeet) {
  small::Builder b("known");
  std::vector<float> numbers(60);
  std::iota(numbers.begin(), numbers.end(), 1.0f);
  const std::string table = b.constant("table", Tensor::from<float>({1, 3, 4, 5}, numbers));
  const std::string half = b.constant("half", Tensor::scalar(0.5, DType::f32)), x = b.input("x", {1, 4, 3, 5});
  const std::string turned = b.node("Transpose", {table}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
  const Graph graph = b.finish({b.node("Mul", {turned, half}), b.relu(x)});
  expect_close(run(graph, "onednn", {}).values, run(graph, "reference", {}).values, graph.nodes.size(), 1, false);
}

TEST_F(Networks, CausalAttentionHasNoReferenceKernel) {
  small::Builder b("causal");
  const Shape heads{2, 3, 16, 16};
  const Graph graph = b.finish({b.node("Attention", {b.input("q", heads), b.input("k", heads), b.input("v", heads)},
                                       {{"is_causal", int64_t{1}}})});
  ParameterSet parameters;
  CompileOptions options = training();
  options.kernel = "onednn";
  for (const auto& [name, kernel] : open_backend("onednn")->compile(graph, parameters, options)->kernels())
    EXPECT_THAT(kernel, testing::Not(testing::HasSubstr("ref"))) << name;
}

// Queries, keys and values are one tensor, which is read once more: its gradient has four summands. 100 queries are
// several blocks.
TEST_F(Networks, AttentionOfAValueToItself) {
  for (const char* kernel : {"builtin", "onednn"})
    for (const bool causal : {false, true}) {
      SCOPED_TRACE(fmt::format("{}, causal {}", kernel, causal));
      small::Builder b("itself");
      const std::string x = b.relu(b.input("x", {2, 100, 48}));
      const std::string y =
          b.node("Attention", {x, x, x},
                 {{"is_causal", int64_t{causal}}, {"q_num_heads", int64_t{3}}, {"kv_num_heads", int64_t{3}}});
      const Graph graph = b.finish({b.node("Add", {x, y})});
      CompileOptions options = training();
      const Results expected = run(graph, "reference", options);
      options.kernel = kernel;
      const Results actual = run(graph, "onednn", options);
      expect_close(actual.values, expected.values, graph.nodes.size(), 100, false);
      expect_close(actual.gradients, expected.gradients, graph.nodes.size(), 100, false);
    }
}

TEST_F(Networks, AttentionTellsItsScores) {
  for (const int64_t mode : {0, 1, 2, 3})
    for (const double softcap : {0.0, 0.5}) {
      SCOPED_TRACE(fmt::format("mode {}, softcap {}", mode, softcap));
      small::Builder b("scores");
      const std::vector<std::string> inputs{b.input("q", {2, 4, 20, 8}), b.input("k", {2, 2, 30, 8}),
                                            b.input("v", {2, 2, 30, 5}), b.input("mask", {2, 1, 20, 30})};
      const Attributes attributes{{"is_causal", int64_t{mode != 2}},  // no infinities, which have no distance
                                  {"qk_matmul_output_mode", mode},
                                  {"softcap", softcap}};
      const std::string y = b.node("Attention", inputs, attributes, 4);
      const Graph graph = b.finish({y, y + "3"});
      expect_close(run(graph, "onednn", {}).values, run(graph, "reference", {}).values, graph.nodes.size(), 30, false);
    }
}

// 1003 x 2111 weights are more than 8 MiB, and neither size fills whole registers or groups of rows.
TEST_F(Networks, OneSampleTimesLargeWeightsAgreesWithTheReference) {
  small::Builder b("wide");
  const std::string x = b.input("x", {1, 2111}), h = b.relu(b.dense(x, 1003));
  const Graph graph = b.finish({h, b.node("Gemm", {h, b.parameter("w", {2111, 1003})}, {{"transB", int64_t{1}}})});
  ParameterSet parameters;
  const auto kernels = open_backend("onednn")->compile(graph, parameters, {})->kernels();
  for (const auto& [name, kernel] : kernels) EXPECT_THAT(kernel, testing::HasSubstr(" rows")) << name;
  expect_close(run(graph, "onednn", {}).values, run(graph, "reference", {}).values, graph.nodes.size(), 2111, false);
  expect_close(run(graph, "onednn", {}, true).values, run(graph, "reference", {}, true).values, graph.nodes.size(),
               2111, true);
}

TEST_F(Networks, MemoryIsSharedAndKnownBefore) {
  const auto backend = open_backend("onednn");
  const Graph graph = small::residual(true, 8, 32);
  CompileOptions all = training();
  all.keep_all = true;
  ParameterSet a, b, c;
  const size_t shared = backend->compile(graph, a, training())->bytes();
  const size_t apart = backend->compile(graph, b, all)->bytes();
  const size_t inference = backend->compile(small::residual(false, 8, 32), c, {})->bytes();
  EXPECT_LT(shared, 0.7 * static_cast<double>(apart));
  EXPECT_LT(inference, 0.7 * static_cast<double>(shared));
}

TEST_F(Networks, BackwardCanRunAgainWhereTheOptionsSaySo) {
  const Graph graph = small::residual(true);
  CompileOptions options = training();
  options.backward_again = true;
  ParameterSet parameters;
  const auto executable = open_backend("onednn")->compile(graph, parameters, options);
  for (const GraphInput& input : graph.inputs)
    executable->write(Role::value, input.name, random_values(input.name, input.spec, false));
  const std::string y = graph.outputs[0];
  executable->write(Role::gradient, y, random_values("seed of " + y, infer_specs(graph).at(y), false));
  executable->forward({});
  for (int i = 0; i < 3; ++i) executable->backward({});
  const Results expected = run(graph, "reference", training());
  std::map<std::string, Tensor> actual;
  for (const auto& [name, tensor] : expected.gradients) actual[name] = executable->read(Role::gradient, name);
  expect_close(actual, expected.gradients, 2 * graph.nodes.size(), 600, false);
}

TEST_F(Networks, WhatIsNotKeptIsRefused) {
  ParameterSet parameters;
  const auto executable = open_backend("onednn")->compile(small::lenet(), parameters, training());
  EXPECT_THAT([&] { executable->read(Role::value, "Conv0.y"); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("not kept")));
}

// Folded weights follow the parameters they were made from.
TEST_F(Networks, ParametersCanChangeAfterTheFirstRun) {
  const Graph graph = small::residual(false);
  ParameterSet parameters;
  const auto executable = open_backend("onednn")->compile(graph, parameters, {});
  for (const GraphInput& input : graph.inputs)
    executable->write(Role::value, input.name, random_values("other " + input.name + ".var", input.spec, false));
  executable->forward({});
  for (const GraphInput& input : graph.inputs)
    executable->write(Role::value, input.name, random_values(input.name, input.spec, false));
  executable->forward({});
  const Results expected = run(graph, "reference", {});
  expect_close({{graph.outputs[0], executable->read(Role::value, graph.outputs[0])}}, expected.values,
               graph.nodes.size(), 600, false);
}

// One set of parameters for learning and for using: each executable has its own layouts, the second one copies.
TEST_F(Networks, InferenceSharesTheParametersOfTraining) {
  const auto backend = open_backend("onednn");
  const Graph learns = small::residual(true), used = small::residual(false);
  ParameterSet parameters;
  const auto trained = backend->compile(learns, parameters, training());
  const auto inference = backend->compile(used, parameters, {});
  for (const GraphInput& input : learns.inputs)
    trained->write(Role::value, input.name, random_values(input.name, input.spec, false));
  inference->write(Role::value, "x", random_values("x", infer_specs(used).at("x"), false));
  const Results expected = run(used, "reference", {});
  for (int i = 0; i < 2; ++i) {
    inference->forward({});
    expect_close({{used.outputs[0], inference->read(Role::value, used.outputs[0])}}, expected.values, used.nodes.size(),
                 600, false);
    for (const GraphInput& input : used.inputs)  // the same again, from the other side
      inference->write(Role::value, input.name, random_values(input.name, input.spec, false));
    EXPECT_EQ(std::memcmp(trained->read(Role::value, "conv0.w").data(), inference->read(Role::value, "conv0.w").data(),
                          432 * sizeof(float)),
              0);
  }
}

}  // namespace
}  // namespace d5
