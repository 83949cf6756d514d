// SPDX-License-Identifier: Apache-2.0
#include "d5/backends/host_node.hpp"

#include <gmock/gmock.h>

namespace d5 {
namespace {

// y = 3 x, without a gradient, in as few lines as an operator can have.
class Triple final : public Operator {
 public:
  std::vector<TensorSpec> infer(std::span<const TensorSpec> in) const override { return {in[0]}; }
  void forward(Context& c) const override {
    for (Index i = 0; i < c.input(0).elements(); ++i)
      c.output(0).values<double>()[i] = 3 * c.input(0).values<double>()[i];
  }
};
// Registered when a test runs: the conformance tests of this program take every operator that is there before.
void register_triple() { static const Registration<operators, Triple> once("Triple"); }

TEST(HostNode, RunsAnOperatorOnForeignBuffersForwardAndBackward) {
  HostNode node({.op = "Relu"}, {{DType::f32, {4}}}, {true});
  std::vector<float> x{-1, 2, -3, 4}, y(4), dy{10, 20, 30, 40}, dx(4);
  node.forward({x.data()}, {y.data()});
  EXPECT_THAT(y, testing::ElementsAre(0, 2, 0, 4));
  node.backward({x.data()}, {y.data()}, {dy.data()}, {dx.data()});
  EXPECT_THAT(dx, testing::ElementsAre(0, 20, 0, 40));
  std::vector<float> other{5, -6, 7, -8};
  node.forward({other.data()}, {y.data()});
  EXPECT_THAT(y, testing::ElementsAre(5, 0, 7, 0));
}

TEST(HostNode, AnOperatorWithoutAGradientSaysSo) {
  register_triple();
  HostNode node({.op = "Triple"}, {{DType::bf16, {2}}}, {});
  EXPECT_FALSE(node.has_backward());
  EXPECT_EQ(node.outputs().at(0).dtype, DType::bf16);
  EXPECT_THAT(
      [] {
        HostNode({.op = "Triple"}, {{DType::f32, {2}}}, {true});
      },
      testing::ThrowsMessage<Error>("[Triple] has no gradient"));
}

TEST(Defaults, AClassWithoutDescriptionHasOneInputOfAnyShape) {
  register_triple();
  const OperatorEntry& entry = registered<operators>("Triple");
  ASSERT_EQ(entry.parameters.size(), 1u);
  EXPECT_EQ(entry.parameters[0].name, "shape");
  const OperatorCase one = entry.describe({{"shape", std::string("3x5")}}, DType::f32);
  const auto op = entry.make({});
  EXPECT_EQ(op->cost(one.specs(), Pass::forward).bytes, 2 * 15 * 4);
  EXPECT_EQ(op->cost(one.specs(), Pass::forward).flops, 0);
  EXPECT_EQ(op->rounding(one.specs(), Pass::forward, 0).terms, 15);
  EXPECT_TRUE(registered<operators>("Relu").has_backward);
}

}  // namespace
}  // namespace d5
