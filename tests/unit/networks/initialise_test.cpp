// SPDX-License-Identifier: Apache-2.0
#include "d5/networks/initialise.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "d5/core/parallel.hpp"
#include "d5/core/rng.hpp"
#include "d5/networks/builder.hpp"
#include "d5/networks/loss.hpp"
#include "d5/networks/samples.hpp"
#include "tiny.hpp"

namespace d5 {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

bool same(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() && std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

Graph with_parameter(Shape shape, const std::string& initialiser) {
  Builder b("net", 2, DType::f64);
  const Edge p = b.parameter("p", shape, initialiser);
  return b.finish({{"y", b.node("MatMul", "y", {b.input("x", {shape[0]}), p})}});
}

// Number i of the stream that the parameter's name gives, whoever asks and in which order.
TEST(Initialise, DependsOnTheNameAlone) {
  const Graph graph = build_network("resnet-20", {}, 1, DType::f32, Mode::training);
  const auto values = initial_values(graph, 7);
  const Rng rng(7, stream_of("layer1.0.conv1.weight"));
  const double deviation = std::sqrt(2.0 / (16 * 9));
  for (const Index i : {0, 1, 2, 1000, 2303})
    EXPECT_EQ(values.at("layer1.0.conv1.weight").values<float>()[i],
              static_cast<float>(deviation * rng.normal(static_cast<uint64_t>(i))));

  Graph reversed = graph;
  std::ranges::reverse(reversed.inputs);
  const int before = threads();
  set_threads(3);
  const auto again = initial_values(reversed, 7);
  set_threads(before);
  ASSERT_EQ(again.size(), values.size());
  for (const auto& [name, value] : values) EXPECT_TRUE(same(value, again.at(name))) << name;
  // Another batch, another depth: the same layer starts the same.
  const auto deeper = initial_values(build_network("resnet-32", {}, 9, DType::f32, Mode::inference), 7);
  EXPECT_TRUE(same(values.at("layer1.0.conv1.weight"), deeper.at("layer1.0.conv1.weight")));
  EXPECT_FALSE(same(values.at("layer1.0.conv1.weight"), values.at("layer1.0.conv2.weight")));
  EXPECT_FALSE(same(values.at("conv1.weight"), initial_values(graph, 8).at("conv1.weight")));
}

// Every network can be initialised; weights differ from each other, scales and statistics are what they should be.
TEST(Initialise, EveryNetwork) {
  for (const auto& [name, tiny] : tiny_networks()) {
    const Graph graph = build_network(name, tiny, 1, DType::f32, Mode::training);
    const auto values = initial_values(graph, 1);
    for (const GraphInput& input : graph.inputs) {
      if (!input.parameter) continue;
      ASSERT_TRUE(values.contains(input.name)) << name << " " << input.name;
      for (const float v : values.at(input.name).values<float>())
        ASSERT_TRUE(std::isfinite(v)) << name << " " << input.name;
      if (input.name.ends_with("running_var")) {
        EXPECT_EQ(values.at(input.name).values<float>()[0], 1) << input.name;
      }
    }
  }
}

// The mean square of n normal numbers of deviation d is d^2 +- 6 d^2 sqrt(2 / n), of uniform ones in [-a, a]
// a^2 / 3 +- 6 a^2 sqrt(4 / 45 / n).
TEST(Initialise, Distributions) {
  const auto mean_square = [](const std::string& initialiser) {
    const Graph graph = with_parameter({200, 300}, initialiser);
    const Tensor value = initial_values(graph, 5).at("p");
    double sum = 0;
    for (const double v : value.values<double>()) sum += v * v;
    return sum / static_cast<double>(value.elements());
  };
  const double n = 200 * 300;
  const auto near_normal = [&](const std::string& initialiser, double square) {
    EXPECT_NEAR(mean_square(initialiser), square, 6 * square * std::sqrt(2 / n)) << initialiser;
  };
  const auto near_uniform = [&](const std::string& initialiser, double a) {
    EXPECT_NEAR(mean_square(initialiser), a * a / 3, 6 * a * a * std::sqrt(4.0 / 45 / n)) << initialiser;
  };
  near_normal("he", 2.0 / 200);
  near_normal("he-out", 2.0 / 300);
  near_normal("lecun", 1.0 / 200);
  near_normal("normal:0.02", 0.0004);
  near_uniform("uniform:0.05", 0.05);
  near_uniform("xavier", std::sqrt(6.0 / 500));
  EXPECT_EQ(mean_square("zeros"), 0);
  EXPECT_EQ(mean_square("ones"), 1);
  EXPECT_EQ(mean_square("constant:-2"), 4);
}

TEST(Initialise, FansBelongToTheOperator) {
  Builder b("net", 1, DType::f32);
  Edge x = b.input("x", {8, 12, 12});
  x = b.conv("conv", x, 16, 3, {.groups = 4});
  x = b.conv_transpose("up", x, 6, 2, {.stride = 2});
  x = b.linear("fc", b.flatten("flat", x), 5);
  const Graph graph = b.finish({{"y", x}});
  const auto fans_of = [&](const std::string& name) {
    return fans(graph, *std::ranges::find(graph.inputs, name, &GraphInput::name));
  };
  EXPECT_EQ(fans_of("conv.weight").in, 2 * 9);
  EXPECT_EQ(fans_of("conv.weight").out, 4 * 9);
  EXPECT_EQ(fans_of("up.weight").in, 16 * 4);
  EXPECT_EQ(fans_of("up.weight").out, 6 * 4);
  EXPECT_EQ(fans_of("fc.weight").in, 6 * 20 * 20);
  EXPECT_EQ(fans_of("fc.weight").out, 5);
  EXPECT_THROW(fans_of("fc.bias"), Error);
}

// He et al. 2015: rectified layers keep the mean square of what passes through them.
TEST(Initialise, HeKeepsTheScale) {
  const Graph graph =
      build_network("mlp", {{"features", 256}, {"width", 256}, {"depth", 20}}, 16, DType::f32, Mode::inference);
  Graph open = graph;
  open.outputs = {"layers.0", "layers.19"};
  ParameterSet set;
  const auto executable = open_backend("reference")->compile(open, set, {});
  for (const auto& [name, value] : initial_values(graph, 1)) executable->write(Executable::Role::value, name, value);
  for (const auto& [name, value] : sample_inputs(graph, 1)) executable->write(Executable::Role::value, name, value);
  executable->forward({});
  const auto mean_square = [&](const std::string& name) {
    double sum = 0;
    const Tensor value = executable->read(Executable::Role::value, name);
    for (const float v : value.values<float>()) sum += static_cast<double>(v) * v;
    return sum / static_cast<double>(value.elements());
  };
  // A layer multiplies the mean square by 1 +- sqrt(5 / width) (the variance of relu(x)^2 is 5 times its mean squared).
  const double ratio = mean_square("layers.19") / mean_square("layers.0");
  const double spread = std::exp(3 * std::sqrt(19 * 5.0 / 256));
  EXPECT_LT(ratio, spread);
  EXPECT_GT(ratio, 1 / spread);
}

TEST(Initialise, GivenValuesComeFirst) {
  Graph graph = with_parameter({2, 2}, "he");
  graph.initial["p"] = Tensor::from<double>({2, 2}, {1, 2, 3, 4});
  EXPECT_TRUE(same(initial_values(graph, 1).at("p"), graph.initial["p"]));
}

TEST(Initialise, MistakesAreNamed) {
  for (const char* wrong : {"hee", "normal", "normal:x", "normal:1x", "zeros:1", "uniform:"})
    EXPECT_THAT([&] { initial_values(with_parameter({2, 2}, wrong), 1); }, ThrowsMessage<UsageError>(HasSubstr(wrong)));
  EXPECT_THAT([] { initial_values(with_parameter({2, 2}, ""), 1); }, ThrowsMessage<Error>(HasSubstr("'p'")));
}

TEST(Samples, IntegersChooseAmongWhatIsThere) {
  const Graph graph = with_loss(
      build_network("lstm-lm", {{"vocabulary", 17}, {"width", 4}, {"length", 50}}, 8, DType::f32, Mode::training),
      "token-cross-entropy");
  const auto values = sample_inputs(graph, 1);
  EXPECT_EQ(values.size(), 2u);
  for (const char* name : {"tokens", "target"}) {
    const auto numbers = values.at(name).values<int64_t>();
    EXPECT_EQ(std::ranges::min(numbers), 0) << name;
    EXPECT_EQ(std::ranges::max(numbers), 16) << name;
  }
  const Graph bert =
      build_network("transformer-encoder", tiny_networks().at("transformer-encoder"), 8, DType::f32, Mode::inference);
  EXPECT_EQ(std::ranges::max(sample_inputs(bert, 1).at("types").values<int64_t>()), 1);
}

}  // namespace
}  // namespace d5
