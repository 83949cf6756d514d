// SPDX-License-Identifier: Apache-2.0
#include "d5/networks/builder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "d5/networks/form.hpp"
#include "tiny.hpp"

namespace d5 {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

const GraphInput& input(const Graph& graph, const std::string& name) {
  for (const GraphInput& one : graph.inputs)
    if (one.name == name) return one;
  throw Error("no input {}", name);
}

TEST(Builder, NamesShapesAndSymbols) {
  Builder b("net", 4, DType::f32);
  Edge x = b.input("image", {3, 9, 8});
  x = b.conv("conv", x, 5, 3, {.stride = {2, 1}, .pad = {1, 0}, .bias = false});
  EXPECT_EQ(x.spec.shape, (Shape{4, 5, 5, 6}));
  x = b.linear("fc", b.flatten("flat", b.batch_norm("bn", x)), 7);
  const Graph graph = b.finish({{"scores", x}});
  EXPECT_THAT(input(graph, "image").symbols, ElementsAre("N", "", "", ""));
  EXPECT_TRUE(input(graph, "image").differentiable);
  EXPECT_EQ(input(graph, "conv.weight").spec.shape, (Shape{5, 3, 3, 3}));
  EXPECT_EQ(input(graph, "conv.weight").initialiser, "he");
  EXPECT_EQ(input(graph, "fc.bias").initialiser, "zeros");
  EXPECT_EQ(input(graph, "bn.running_var").initialiser, "ones");
  EXPECT_TRUE(input(graph, "bn.running_var").parameter);
  EXPECT_FALSE(input(graph, "bn.running_var").differentiable);
  EXPECT_THAT(graph.outputs, ElementsAre("scores", "bn.running_mean.next", "bn.running_var.next"));
  EXPECT_EQ(infer_specs(graph).at("scores").shape, (Shape{4, 7}));
}

// What belongs to a channel stays f32, as frameworks keep it; integers have no gradient.
TEST(Builder, NarrowTypes) {
  Builder b("net", 2, DType::bf16);
  Edge x = b.embedding("words", b.input("tokens", {6}, DType::i64), 10, 4);
  x = b.batch_norm("bn", x);
  const Graph graph = b.finish({{"y", x}});
  EXPECT_EQ(input(graph, "words.weight").spec.dtype, DType::bf16);
  EXPECT_EQ(input(graph, "bn.weight").spec.dtype, DType::f32);
  EXPECT_FALSE(input(graph, "tokens").differentiable);
  EXPECT_EQ(infer_specs(graph).at("y").dtype, DType::bf16);
}

TEST(Builder, MistakesAreNamed) {
  Builder b("net", 2, DType::f32);
  const Edge x = b.input("image", {3, 8, 8});
  b.conv("conv", x, 4, 3);
  EXPECT_THAT([&] { b.relu("conv", x); }, ThrowsMessage<Error>(HasSubstr("'conv' is there twice")));
  EXPECT_THAT([&] { b.conv("large", x, 4, 11); }, ThrowsMessage<Error>(HasSubstr("layer 'large'")));
  EXPECT_THAT([&] { b.conv("sizes", x, 4, {3, 3, 3}); }, ThrowsMessage<Error>(HasSubstr("3 sizes are given where 2")));
  EXPECT_THAT([&] { b.finish({{"y", x}}); }, ThrowsMessage<Error>(HasSubstr("made by no node")));
  EXPECT_THROW(Builder("net", 2, DType::i32), UsageError);
}

TEST(Networks, UnknownNamesAndValues) {
  const auto build = [](const std::string& name, const Attributes& values, Index batch = 1) {
    return build_network(name, values, batch, DType::f32, Mode::inference);
  };
  EXPECT_THAT([&] { build("resnet-51", {}); }, ThrowsMessage<UsageError>(HasSubstr("resnet-5")));
  EXPECT_THAT([&] { build("lenet", {{"clases", 10}}); }, ThrowsMessage<UsageError>(HasSubstr("classes")));
  EXPECT_THAT([&] { build("lenet", {{"pool", "sum"}}); }, ThrowsMessage<UsageError>(HasSubstr("average")));
  EXPECT_THAT([&] { build("lenet", {{"size", "x"}}); }, ThrowsMessage<UsageError>(HasSubstr("size")));
  EXPECT_THAT([&] { build("lenet", {}, 0); }, ThrowsMessage<UsageError>(HasSubstr("batch is 0")));
  EXPECT_THAT([&] { build("resnet-50", {{"width", -1}}); }, ThrowsMessage<UsageError>(HasSubstr("width is -1")));
  EXPECT_THAT([&] { build("vit", {{"size", 100}}); }, ThrowsMessage<UsageError>(HasSubstr("multiple of the patch")));
  EXPECT_THAT([&] { build("alexnet", {{"size", 30}}); }, ThrowsMessage<Error>(HasSubstr("layer 'pool")));
}

// Absurd values end in a message, soon, and never in a crash.
TEST(Networks, AbsurdValues) {
  for (const auto& [name, tiny] : tiny_networks())
    for (const Parameter& parameter : registered<networks>(name).parameters) {
      if (!std::holds_alternative<int64_t>(parameter.otherwise)) continue;
      for (const int64_t absurd : {int64_t{0}, int64_t{1} << 40, int64_t{1} << 62}) {
        Attributes values = tiny;
        values.set(parameter.name, absurd);
        try {
          const Graph graph = build_network(name, values, 1, DType::f32, Mode::training);
          EXPECT_LT(graph.nodes.size(), 100000u) << name << " " << parameter.name;
        } catch (const Error& error) {
          EXPECT_THAT(error.what(), HasSubstr("[")) << name << " " << parameter.name;
        }
      }
    }
}

}  // namespace
}  // namespace d5
