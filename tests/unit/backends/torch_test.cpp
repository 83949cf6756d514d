// SPDX-License-Identifier: Apache-2.0
// What is torch's own: layouts of parameters, where gradients land, what it cannot, foreign code inside its autograd.
// Expected numbers are worked out by hand in the comments.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "d5/backends/kernel.hpp"

namespace d5 {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Role = Executable::Role;

std::vector<float> floats(const Tensor& tensor) {
  const auto values = tensor.values<float>();
  return {values.begin(), values.end()};
}

class Torch : public testing::Test {
 protected:
  void SetUp() override {
    for (const BackendStatus& status : backend_statuses())
      if (status.name == "torch" && status.available) backend_ = open_backend("torch");
    if (!backend_) GTEST_SKIP() << "torch is off";
    training_.mode = Mode::training;
    training_.input_gradients = true;
  }

  // Two channels, one row of two columns; one filter that covers all of it.
  static Graph row_convolution() {
    OperatorCase one;
    one.inputs = {{.spec = {DType::f32, {1, 2, 1, 2}}}, {.spec = {DType::f32, {1, 2, 1, 2}}, .parameter = true}};
    return single_node_graph("Conv", one);
  }
  static Graph of_one(const std::string& op, DType type, Shape shape) {
    OperatorCase one;
    one.inputs = {{.spec = {type, std::move(shape)}}};
    return single_node_graph(op, one);
  }

  std::unique_ptr<Backend> backend_;
  CompileOptions training_;
  ParameterSet parameters_;
};

// W is (1 2) for channel 0 and (3 4) for channel 1: channels last stores 1 3 2 4. x = (5 6), (7 8):
// y = 5 + 12 + 21 + 32 = 70, dW = x.
TEST_F(Torch, ChannelsLastParametersLieSoInTheSet) {
  for (const LayoutChoice layout : {LayoutChoice::fast, LayoutChoice::plain}) {
    ParameterSet parameters;
    training_.layout = layout;
    const auto run = backend_->compile(row_convolution(), parameters, training_);
    run->write(Role::value, "x0", Tensor::from<float>({1, 2, 1, 2}, {5, 6, 7, 8}));
    run->write(Role::value, "x1", Tensor::from<float>({1, 2, 1, 2}, {1, 2, 3, 4}));
    run->write(Role::gradient, "y0", Tensor::from<float>({1, 1, 1, 1}, {1}));
    run->forward({});
    run->backward({});
    EXPECT_THAT(floats(run->read(Role::value, "y0")), ElementsAre(70));
    EXPECT_THAT(floats(run->read(Role::value, "x1")), ElementsAre(1, 2, 3, 4));
    EXPECT_THAT(floats(run->read(Role::gradient, "x1")), ElementsAre(5, 6, 7, 8));
    if (layout == LayoutChoice::fast) {
      EXPECT_EQ(parameters.at("x1").layout, "channels_last");
      EXPECT_THAT(floats(parameters.compute("x1")), ElementsAre(1, 3, 2, 4));
      EXPECT_THAT(floats(parameters.gradient("x1")), ElementsAre(5, 7, 6, 8));
      EXPECT_FALSE(run->view(Role::value, "x1").present()) << "it is not row-major";
    } else {
      EXPECT_EQ(parameters.at("x1").layout, "");
      EXPECT_THAT(floats(parameters.compute("x1")), ElementsAre(1, 2, 3, 4));
      EXPECT_THAT(floats(parameters.gradient("x1")), ElementsAre(5, 6, 7, 8));
    }
  }
}

TEST_F(Torch, AnotherLayoutDoesNotShareASet) {
  const auto first = backend_->compile(row_convolution(), parameters_, training_);
  training_.layout = LayoutChoice::plain;
  EXPECT_THROW(backend_->compile(row_convolution(), parameters_, training_), Error);
}

TEST_F(Torch, GradientsMayStayOutsideTheSet) {
  training_.gradients_in_set = false;
  const auto run = backend_->compile(row_convolution(), parameters_, training_);
  run->write(Role::value, "x0", Tensor::from<float>({1, 2, 1, 2}, {5, 6, 7, 8}));
  run->write(Role::gradient, "y0", Tensor::from<float>({1, 1, 1, 1}, {1}));
  run->forward({});
  run->backward({});
  EXPECT_THAT(floats(run->read(Role::gradient, "x1")), ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(floats(parameters_.gradient("x1")), ElementsAre(0, 0, 0, 0));
  run->backward({.add_gradients = true});
  EXPECT_THAT(floats(run->read(Role::gradient, "x1")), ElementsAre(10, 12, 14, 16));
}

// A set in bf16 holds a master in f32 beside it.
TEST_F(Torch, BfloatParametersHaveAMaster) {
  OperatorCase one;
  one.inputs = {{.spec = {DType::bf16, {1, 2}}}, {.spec = {DType::bf16, {2, 1}}, .parameter = true}};
  ParameterSet parameters(DType::bf16);
  const auto run = backend_->compile(single_node_graph("Gemm", one), parameters, training_);
  run->write(Role::value, "x0", Tensor::from<float>({1, 2}, {3, 5}).cast(DType::bf16));
  run->write(Role::value, "x1", Tensor::from<float>({2, 1}, {7, 2}).cast(DType::bf16));
  run->write(Role::gradient, "y0", Tensor::from<float>({1, 1}, {2}).cast(DType::bf16));
  run->forward({});
  run->backward({});
  EXPECT_EQ(run->read(Role::value, "y0").cast(DType::f64).values<double>()[0], 31);
  EXPECT_THAT(floats(parameters.master("x1")), ElementsAre(7, 2));
  EXPECT_THAT(floats(parameters.gradient("x1").cast(DType::f32)), ElementsAre(6, 10));
}

TEST_F(Torch, SaysWhatItCannot) {
  const Graph relu = of_one("Relu", DType::f32, {2});
  CompileOptions options;
  options.device = "cuda:99";
  EXPECT_THAT(backend_->why_not(relu, options).value_or(""), HasSubstr("no device 'cuda:99'"));
  options.device = "gpu";
  EXPECT_THROW(backend_->why_not(relu, options), UsageError);
  options.device = "cpu";
  options.math = Math::winograd;
  EXPECT_THAT(backend_->why_not(relu, options).value_or(""), HasSubstr("Winograd"));
  options.math = Math::strict;
  options.keep_denormals = false;
  EXPECT_THAT(backend_->why_not(relu, options).value_or(""), HasSubstr("denormals"));
  EXPECT_THAT(backend_->why_not(of_one("Relu", DType::i64, {2}), {}).value_or(""), testing::IsEmpty());
  const auto run = backend_->compile(relu, parameters_, {});
  EXPECT_THROW(run->backward({}), Error);
}

TEST_F(Torch, ViewsOfAnInputDoNotSpoilIt) {
  const auto run = backend_->compile(of_one("Transpose", DType::f32, {2, 2}), parameters_, {});
  run->write(Role::value, "x0", Tensor::from<float>({2, 2}, {1, 2, 3, 4}));
  run->forward({});
  EXPECT_THAT(floats(run->read(Role::value, "y0")), ElementsAre(1, 3, 2, 4));
  run->write(Role::value, "y0", Tensor::from<float>({2, 2}, {0, 0, 0, 0}));
  EXPECT_THAT(floats(run->read(Role::value, "x0")), ElementsAre(1, 2, 3, 4));
}

// y = 2 x, and a gradient that nobody else would give: dx = 3 dy.
class Doubled final : public Kernel {
 public:
  void prepare(KernelSetup& setup) override { elements_ = setup.inputs[0].elements(); }
  void bind(int, const Buffers& buffers) override { buffers_ = buffers; }
  void forward(int) override { scale(2, buffers_.inputs[0], buffers_.outputs[0]); }
  void backward(int) override { scale(3, buffers_.output_gradients[0], buffers_.input_gradients[0]); }
  std::string implementation() const override { return "doubled"; }

 private:
  void scale(float factor, const void* from, void* to) const {
    for (Index i = 0; i < elements_; ++i) static_cast<float*>(to)[i] = factor * static_cast<const float*>(from)[i];
  }
  Index elements_ = 0;
  Buffers buffers_;
};
D5_REGISTER_KERNEL(torch, "Relu", "doubled", Doubled);

TEST_F(Torch, AKernelRunsInsideItsAutograd) {
  // y = doubled(x W) with x = (1 2), W = (3; 4): y = 22, dy = 1: dh = 3, dW = (3; 6), dx = (9 12).
  Graph graph{.name = "chain"};
  graph.inputs = {{"x", {DType::f32, {1, 2}}}, {"W", {DType::f32, {2, 1}}, true}};
  graph.outputs = {"y"};
  graph.nodes = {{"Gemm", "product", {"x", "W"}, {"h"}, {}}, {"Relu", "mine", {"h"}, {"y"}, {}}};
  training_.kernel = "doubled";
  training_.slots = 2;
  ASSERT_FALSE(backend_->why_not(graph, training_));
  const auto run = backend_->compile(graph, parameters_, training_);
  EXPECT_EQ(run->kernels()[1].second, "doubled");
  run->write(Role::value, "W", Tensor::from<float>({2, 1}, {3, 4}));
  for (const int slot : {0, 1}) {
    run->write(Role::value, "x", Tensor::from<float>({1, 2}, {1.0f + 10.0f * static_cast<float>(slot), 2}), slot);
    run->write(Role::gradient, "y", Tensor::from<float>({1, 1}, {1}), slot);
    run->forward({.slot = slot});
  }
  run->backward({.slot = 0});  // after the forward of another slot
  EXPECT_THAT(floats(run->read(Role::value, "y", 0)), ElementsAre(22));
  EXPECT_THAT(floats(run->read(Role::gradient, "W", 0)), ElementsAre(3, 6));
  EXPECT_THAT(floats(run->read(Role::gradient, "x", 0)), ElementsAre(9, 12));
}

// An operator that ATen does not have: y = x^2 + 1.
class SquarePlusOne final : public Operator {
 public:
  explicit SquarePlusOne(const Attributes&) {}
  std::vector<TensorSpec> infer(std::span<const TensorSpec> in) const override { return {{in[0].dtype, in[0].shape}}; }
  void forward(Context& c) const override {
    const auto x = c.input(0).values<double>(), y = c.output(0).values<double>();
    for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] * x[i] + 1;
  }
  void backward(Context& c) const override {
    const auto x = c.input(0).values<double>(), dy = c.output_gradient(0).values<double>();
    const auto dx = c.input_gradient(0).values<double>();
    for (size_t i = 0; i < x.size(); ++i) dx[i] = 2 * x[i] * dy[i];
  }
  Cost cost(std::span<const TensorSpec> in, Pass) const override { return {0, in[0].bytes()}; }
  Rounding rounding(std::span<const TensorSpec>, Pass, size_t) const override { return {}; }
  static std::vector<Parameter> parameters() { return {}; }
  static OperatorCase describe(const Attributes&, DType type) { return {.inputs = {{.spec = {type, Shape{2}}}}}; }
  static std::vector<Attributes> cases() { return {}; }
};

TEST_F(Torch, AnOperatorRunsInsideItsAutograd) {
  const Registration<operators, SquarePlusOne> here("TestSquarePlusOne");  // not before: other tests list operators
  const Graph graph = of_one("TestSquarePlusOne", DType::f32, {2});
  EXPECT_THAT(backend_->why_not(graph, training_).value_or(""), HasSubstr("no ATen function"));
  training_.fallback = Fallback::reference;
  ASSERT_FALSE(backend_->why_not(graph, training_));
  const auto run = backend_->compile(graph, parameters_, training_);
  run->write(Role::value, "x0", Tensor::from<float>({2}, {3, -1}));
  run->write(Role::gradient, "y0", Tensor::from<float>({2}, {1, 10}));
  run->forward({});
  run->backward({});
  EXPECT_THAT(floats(run->read(Role::value, "y0")), ElementsAre(10, 2));
  EXPECT_THAT(floats(run->read(Role::gradient, "x0")), ElementsAre(6, -20));
  EXPECT_THAT(run->kernels()[0].second, HasSubstr("fallback"));
}

TEST_F(Torch, FactsNameTheLibraryAndItsThreads) {
  Facts facts = backend_->facts();
  const auto value = [&](const std::string& name) {
    for (const auto& [fact, text] : facts)
      if (fact == name) return text;
    return std::string();
  };
  EXPECT_EQ(value("library"), "LibTorch");
  EXPECT_THAT(value("version"), testing::ContainsRegex("^2[.][0-9]+"));
  EXPECT_FALSE(value("threads").empty());
  EXPECT_FALSE(value("cuda").empty()) << "a version, or why there is none";
}

}  // namespace
}  // namespace d5
