// SPDX-License-Identifier: Apache-2.0
// Memory with a limit: what does not fit is refused with both figures; values that are computed again, convolutions in
// pieces and nodes that are not fused give the results of the network as it is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "d5/backends/kernel.hpp"
#include "d5/backends/memory_limit.hpp"
#include "d5/core/rng.hpp"
#include "d5/graph/micro_batch.hpp"
#include "small_networks.hpp"

namespace d5 {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using Role = Executable::Role;

CompileOptions training() {
  CompileOptions options;
  options.mode = Mode::training;
  return options;
}

std::vector<std::string> kernel_backends() {
  std::vector<std::string> names{"reference"};
  for (const BackendStatus& status : backend_statuses())
    if (status.name == "onednn" && status.available) names.push_back("onednn");
  return names;
}

std::map<std::string, Graph> graphs() {
  return {{"residual", small::residual(true, 6, 16)},
          {"lenet", small::lenet()},
          {"mobile", small::mobile(true)},
          {"encoder", small::encoder()}};
}

struct Ran {
  size_t bytes = 0;
  Facts kernels;
  std::map<std::string, Tensor> results;  // outputs, and gradients of parameters
};

Ran run(const Graph& graph, const std::string& backend, const CompileOptions& options, int steps = 2) {
  const auto opened = open_backend(backend);
  if (const auto reason = opened->why_not(graph, options)) throw Error("{}", *reason);
  ParameterSet parameters;
  const auto executable = opened->compile(graph, parameters, options);
  const Specs specs = infer_specs(graph);
  const auto values = [](const std::string& name, const TensorSpec& spec) {
    const Tensor tensor(spec.dtype, spec.shape);
    fill_uniform(tensor, Rng(3, stream_of(name)), 0.25, 1);
    return tensor;
  };
  for (const GraphInput& input : graph.inputs)
    executable->write(Role::value, input.name, values(input.name, input.spec));
  const bool trains = options.mode == Mode::training;
  for (const std::string& name : graph.outputs)
    if (trains) executable->write(Role::gradient, name, values("seed of " + name, specs.at(name)));
  for (int i = 0; i < steps; ++i) {
    executable->forward({});
    if (trains) executable->backward({});
  }
  Ran ran{executable->bytes(), executable->kernels(), {}};
  for (const std::string& name : graph.outputs) ran.results[name] = executable->read(Role::value, name);
  for (const GraphInput& input : graph.inputs)
    if (trains && input.parameter && input.differentiable)
      ran.results["gradient of " + input.name] = executable->read(Role::gradient, input.name);
  return ran;
}

void expect_same_bits(const Ran& actual, const Ran& expected) {
  ASSERT_EQ(actual.results.size(), expected.results.size());
  for (const auto& [name, tensor] : expected.results)
    EXPECT_EQ(std::memcmp(actual.results.at(name).data(), tensor.data(), tensor.bytes()), 0) << name;
}

// As norms: first order in the rounding of f32, for sums of up to `terms` in some other order.
void expect_near(const Ran& actual, const Ran& expected, double terms) {
  ASSERT_EQ(actual.results.size(), expected.results.size());
  for (const auto& [name, tensor] : expected.results) {
    double error = 0, size = 0;
    for (size_t i = 0; i < tensor.values<float>().size(); ++i) {
      const double other = actual.results.at(name).values<float>()[i], one = tensor.values<float>()[i];
      error += (other - one) * (other - one);
      size += one * one;
    }
    EXPECT_LE(std::sqrt(error), 6 * std::sqrt(terms) * 0x1p-24 * std::sqrt(size)) << name;
    EXPECT_GT(size, 0) << name;
  }
}

TEST(Limits, ComputingAgainGivesTheSameBitsInLessMemory) {
  for (const std::string& backend : kernel_backends())
    for (const auto& [name, graph] : graphs()) {
      SCOPED_TRACE(backend + ", " + name);
      CompileOptions again = training();
      again.recompute_above = 1;
      const Ran whole = run(graph, backend, training()), less = run(graph, backend, again);
      EXPECT_LE(less.bytes, whole.bytes);
      if (name == "residual") {
        EXPECT_LT(less.bytes, 0.9 * static_cast<double>(whole.bytes));
      }
      expect_same_bits(less, whole);
      again.backward_again = true;
      expect_same_bits(run(graph, backend, again), whole);
      // Memory that is enough: nothing is computed again.
      again = training();
      again.recompute_above = whole.bytes;
      EXPECT_EQ(run(graph, backend, again).bytes, whole.bytes);
      // In between: the bound holds.
      again.recompute_above = again.memory_limit = (whole.bytes + less.bytes) / 2;
      const Ran between = run(graph, backend, again);
      EXPECT_LE(between.bytes, again.memory_limit);
      expect_same_bits(between, whole);
    }
}

TEST(Limits, WhatDoesNotFitIsRefusedWithBothFigures) {
  const Graph graph = small::residual(true, 8, 32);
  for (const std::string& backend : kernel_backends()) {
    const size_t bytes = run(graph, backend, training()).bytes;
    CompileOptions limited = training();
    limited.memory_limit = bytes;
    EXPECT_EQ(run(graph, backend, limited).bytes, bytes);
    limited.memory_limit = bytes - 1;
    try {
      run(graph, backend, limited);
      ADD_FAILURE() << "one byte less is not enough";
    } catch (const OverLimit& over) {
      EXPECT_EQ(over.limit(), bytes - 1);
      EXPECT_EQ(over.needed(), bytes);
      EXPECT_THAT(over.what(), HasSubstr("the limit is"));
    }
  }
}

TEST(Limits, WithoutFusionEveryNodeIsAStep) {
  for (const Mode mode : {Mode::inference, Mode::training}) {
    const Graph graph = small::residual(mode == Mode::training);
    for (const std::string& backend : kernel_backends()) {
      CompileOptions fused, apart;
      fused.mode = apart.mode = mode;
      apart.fuse = false;
      const Ran whole = run(graph, backend, fused), single = run(graph, backend, apart);
      for (const auto& [step, kernel] : single.kernels) EXPECT_EQ(step.find('+'), std::string::npos) << step;
      EXPECT_GE(single.kernels.size(), graph.nodes.size());
      expect_near(single, whole, 600);
    }
  }
}

// Every convolution in two uneven pieces.
Graph in_pieces(const Graph& graph) {
  const Specs specs = infer_specs(graph);
  std::map<std::string, std::vector<Index>> pieces;
  for (const Node& node : graph.nodes)
    if (const Index n = node.op == "Conv" ? specs.at(node.inputs[0]).shape[0] : 0; n > 1)
      pieces[node.name] = n > 2 ? std::vector<Index>{n - 2, 1, 1} : std::vector<Index>{1, 1};
  return with_micro_batches(graph, pieces);
}

TEST(Limits, ConvolutionsInPiecesAreOneStepEach) {
  for (const std::string& backend : kernel_backends())
    for (const std::string kernel : {"builtin", "im2col"})
      for (const Mode mode : {Mode::inference, Mode::training}) {
        if (backend == "reference" && kernel != "builtin") continue;
        SCOPED_TRACE(backend + " " + kernel);
        const Graph graph = small::residual(mode == Mode::training, 5, 8);
        CompileOptions options;
        options.mode = mode;
        options.kernel = kernel;
        const Ran divided = run(in_pieces(graph), backend, options);
        expect_near(divided, run(graph, backend, options), 5 * 8 * 8 * 16);
        size_t pieces = 0;
        for (const auto& [step, implementation] : divided.kernels) {
          EXPECT_EQ(step.find(".split"), std::string::npos) << step;
          pieces += implementation.find("1 x 3 samples") != std::string::npos ||
                    implementation.find("2 x 1 samples") != std::string::npos;
        }
        EXPECT_GE(pieces, 3u);
      }
}

// A Concat of what nodes without inputs make is no division.
TEST(Limits, AConcatOfConstantsIsNotTakenForPieces) {
  const auto one = std::make_shared<const Tensor>(Tensor::from<float>({1}, std::vector<float>{1}));
  Graph graph{.name = "g", .inputs = {{.name = "x", .spec = {DType::f32, {2}}}}, .outputs = {"a", "b", "y"}};
  graph.nodes = {
      {.op = "Split", .name = "s", .inputs = {"x"}, .outputs = {"a", "b"}, .attributes = {{"num_outputs", 2}}},
      {.op = "Constant", .name = "c", .outputs = {"one"}, .attributes = {{"value", one}}},
      {.op = "Constant", .name = "d", .outputs = {"two"}, .attributes = {{"value", one}}},
      {.op = "Concat", .name = "j", .inputs = {"one", "two"}, .outputs = {"y"}, .attributes = {{"axis", 0}}}};
  for (const std::string& backend : kernel_backends())
    EXPECT_FALSE(open_backend(backend)->why_not(graph, {})) << backend;
}

TEST(Limits, PiecesNeedLessScratchMemory) {
  if (kernel_backends().size() < 2) GTEST_SKIP() << "onednn is off";
  const Graph graph = small::residual(true, 8, 32);
  CompileOptions options = training();
  options.kernel = "im2col";
  const size_t whole = run(graph, "onednn", options).bytes;
  const size_t divided = run(in_pieces(graph), "onednn", options).bytes;
  EXPECT_LT(divided, whole);
  CompileOptions all = options;
  all.keep_all = true;  // then pieces can be read, and are not joined
  ParameterSet parameters;
  std::vector<std::string> steps;
  for (const auto& [step, kernel] : open_backend("onednn")->compile(in_pieces(graph), parameters, all)->kernels())
    steps.push_back(step);
  EXPECT_THAT(steps, Contains(HasSubstr(".split")));
}

TEST(Limits, MemoryOfALimitIsGivenBack) {
  const auto memory = std::make_shared<LimitedMemory>("a test", 1000);
  auto first = make_buffer(memory, 600);
  EXPECT_THROW(make_buffer(memory, 600), OverLimit);
  first.reset();
  const auto second = make_buffer(memory, 1000);
  EXPECT_EQ(second->bytes(), 1000u);
}

}  // namespace
}  // namespace d5
