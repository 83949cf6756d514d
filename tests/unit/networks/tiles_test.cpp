// SPDX-License-Identifier: Apache-2.0
// Steps that work on a few samples of the batch at a time compute what they compute on the whole batch, in less memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "d5/backends/backend.hpp"
#include "d5/networks/initialise.hpp"
#include "d5/networks/samples.hpp"
#include "tiny.hpp"

namespace d5 {
namespace {

using Role = Executable::Role;
using testing::HasSubstr;

bool has_onednn() {
  return std::ranges::any_of(backend_statuses(), [](const auto& s) { return s.name == "onednn" && s.available; });
}

struct Results {
  std::map<std::string, Tensor> outputs;
  size_t bytes = 0, tiled = 0;  // steps
  std::string kernels;
};

// The second of two slots, after the parameters were changed once: what kernels derive from them is made anew.
Results run(const Graph& graph, const std::map<std::string, Tensor>& values, size_t cache) {
  ParameterSet parameters;
  const CompileOptions options{.slots = 2, .tile_cache = cache};
  const auto executable = open_backend("onednn")->compile(graph, parameters, options);
  Results results{.bytes = executable->bytes()};
  for (const bool zero : {true, false}) {
    for (const GraphInput& input : graph.inputs) {
      const Tensor& value = values.at(input.name);
      const Tensor nothing(value.dtype(), value.shape());
      nothing.fill_bytes(0);
      executable->write(Role::value, input.name, zero && input.parameter ? nothing : value, input.parameter ? 0 : 1);
    }
    executable->forward({.slot = 1});
  }
  for (const std::string& name : graph.outputs) results.outputs[name] = executable->read(Role::value, name, 1);
  for (const auto& [node, kernel] : executable->kernels()) {
    results.kernels += node + ": " + kernel + "\n";
    results.tiled += kernel.find(" tiles of ") != std::string::npos ? 1 : 0;
  }
  return results;
}

// Kernels of another batch may add in another order: 6 sqrt(terms) roundings for each node (docs/measuring.md), of the
// largest element. The longest sum of a tiny network has 2304 terms.
void expect_same(const Graph& graph, const Results& tiled, const Results& whole) {
  for (const auto& [name, expected] : whole.outputs) {
    double most = 0, worst = 0;
    for (size_t i = 0; i < expected.values<float>().size(); ++i) {
      const double a = tiled.outputs.at(name).values<float>()[i], b = expected.values<float>()[i];
      most = std::max(most, std::abs(b));
      worst = std::max(worst, std::isnan(a) ? INFINITY : std::abs(a - b));
    }
    EXPECT_GT(most, 0) << name;
    EXPECT_LE(worst, static_cast<double>(graph.nodes.size()) * 6 * std::sqrt(2304.0) * 0x1p-24 * most) << name;
  }
}

std::map<std::string, Tensor> values_of(const Graph& graph) {
  auto values = initial_values(graph, 1);
  values.merge(sample_inputs(graph, 1));
  return values;
}

TEST(Tiles, NetworksOfImagesGiveTheSameInLessMemory) {
  if (!has_onednn()) GTEST_SKIP() << "onednn is off";
  int less = 0;
  for (const char* name : {"vgg-16", "inception-v3", "resnet-50", "resnet-20", "squeezenet", "mobilenet-v2",
                           "densenet-121", "unet", "deeplab-v3-plus", "cosmoflow"}) {
    SCOPED_TRACE(name);
    const Graph graph = build_network(name, tiny_networks().at(name), 6, DType::f32, Mode::inference);
    const auto values = values_of(graph);
    const Results whole = run(graph, values, 0), tiled = run(graph, values, 4096);
    EXPECT_EQ(whole.tiled, 0u);
    EXPECT_GT(tiled.tiled, 1u) << tiled.kernels;
    EXPECT_LE(tiled.bytes, whole.bytes);
    less += tiled.bytes < whole.bytes ? 1 : 0;
    expect_same(graph, tiled, whole);
  }
  EXPECT_GE(less, 8) << "networks that take less memory";
}

// A batch that only one sample divides, and one that a cache holds.
TEST(Tiles, AreOfASizeThatDividesTheBatch) {
  if (!has_onednn()) GTEST_SKIP() << "onednn is off";
  const Graph graph = build_network("resnet-20", tiny_networks().at("resnet-20"), 7, DType::f32, Mode::inference);
  const auto values = values_of(graph);
  const Results tiled = run(graph, values, 8192);
  EXPECT_THAT(tiled.kernels, HasSubstr("7 tiles of 1 samples"));
  expect_same(graph, tiled, run(graph, values, 0));
  EXPECT_EQ(run(graph, values, 1 << 26).tiled, 0u);
}

// As many filters and rows of constants as samples, but they belong to all samples.
TEST(Tiles, LeaveStepsThatTieSamplesTogether) {
  if (!has_onednn()) GTEST_SKIP() << "onednn is off";
  Graph graph{.name = "tied"};
  const Attributes one_by_one{{"kernel_shape", std::vector<int64_t>{1, 1}}};
  const auto four = [](const char* name, Shape shape) { return GraphInput{name, {DType::f32, std::move(shape)}}; };
  graph.inputs = {four("x", {4, 4, 8, 8}), four("w", {4, 4, 1, 1}), four("p", {4, 4, 1, 1}),
                  four("more", {4, 4, 8, 8})};
  graph.nodes = {{"Relu", "relu", {"x"}, {"a"}, {}},
                 {"Abs", "abs", {"w"}, {"b"}, {}},
                 {"Conv", "conv", {"a", "b"}, {"c"}, one_by_one},
                 {"Abs", "abs of p", {"p"}, {"q"}, {}},
                 {"Conv", "conv2", {"c", "q"}, {"d"}, one_by_one},
                 {"Concat", "conv2 and more", {"d", "more"}, {"e"}, {{"axis", int64_t{1}}}},
                 {"Add", "conv2 plus more", {"d", "more"}, {"f"}, {}},
                 {"Relu", "relu2", {"e"}, {"y"}, {}},
                 {"Sigmoid", "sigmoid", {"f"}, {"z"}, {}}};
  graph.outputs = {"y", "z"};
  const auto values = values_of(graph);
  for (const size_t i : {2, 3}) graph.inputs[i].parameter = true;
  const Results tiled = run(graph, values, 256);
  EXPECT_THAT(tiled.kernels, HasSubstr("relu: own"));
  for (const char* node : {"conv", "abs of p"})
    for (size_t at = tiled.kernels.find(node); at != std::string::npos; at = tiled.kernels.find(node, at + 1))
      EXPECT_THAT(tiled.kernels.substr(at, tiled.kernels.find('\n', at) - at), Not(HasSubstr("tiles")))
          << tiled.kernels;
  expect_same(graph, tiled, run(graph, values, 0));
}

}  // namespace
}  // namespace d5
