// SPDX-License-Identifier: Apache-2.0
#include "d5/networks/validate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "d5/backends/kernel.hpp"
#include "d5/core/rng.hpp"
#include "d5/networks/initialise.hpp"
#include "d5/networks/loss.hpp"
#include "d5/networks/samples.hpp"
#include "tiny.hpp"

namespace d5 {
namespace {

// Right but in one element of one node, off by a little more than rounding allows.
class SpoiltRelu final : public Kernel {
 public:
  static inline std::string node;
  static inline Pass pass = Pass::forward;

  void prepare(KernelSetup& setup) override {
    spoilt_ = setup.node.name == node;
    elements_ = static_cast<size_t>(setup.inputs[0].elements());
  }
  void bind(int binding, const Buffers& buffers) override {
    if (binding == 0) buffers_ = buffers;
  }
  void forward(int) override {
    const auto* x = static_cast<const float*>(buffers_.inputs[0]);
    auto* y = static_cast<float*>(buffers_.outputs[0]);
    for (size_t i = 0; i < elements_; ++i) y[i] = x[i] > 0 ? x[i] : 0;
    if (spoilt_ && pass == Pass::forward) y[elements_ - 2] += 1e-3f;
  }
  void backward(int) override {
    const auto* x = static_cast<const float*>(buffers_.inputs[0]);
    const auto* dy = static_cast<const float*>(buffers_.output_gradients[0]);
    auto* dx = static_cast<float*>(buffers_.input_gradients[0]);
    for (size_t i = 0; i < elements_; ++i) dx[i] = x[i] > 0 ? dy[i] : 0;
    if (spoilt_ && pass == Pass::backward) dx[0] += 1e-3f;
  }
  std::string implementation() const override { return "spoilt"; }

 private:
  bool spoilt_ = false;
  size_t elements_ = 0;
  Buffers buffers_;
};
D5_REGISTER_KERNEL(reference, "Relu", "spoilt", SpoiltRelu);

std::map<std::string, Tensor> all_values(const Graph& graph) {
  auto values = initial_values(graph, 1);
  values.merge(sample_inputs(graph, 1));
  return values;
}

Graph trained(const std::string& name, const Attributes& values) {
  const std::string loss = registered<networks>(name).loss;
  return with_loss(build_network(name, values, 2, DType::f32, Mode::training),
                   loss.empty() ? "mean-squared-error" : loss);
}

TEST(Validate, NamesTheNodeThatDeviatesAndNoneBehindIt) {
  const Graph graph = trained("resnet-20", tiny_networks().at("resnet-20"));
  const auto values = all_values(graph);
  const auto backend = open_backend("reference");
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    SpoiltRelu::node = "layer2.1.relu1";
    SpoiltRelu::pass = pass;
    const Validation seen =
        validate(graph, values, *backend, {.compile = {.mode = Mode::training, .kernel = "spoilt"}});
    ASSERT_TRUE(seen.first.has_value());
    const NodeCheck& first = seen.checks[*seen.first];
    EXPECT_EQ(first.node, "layer2.1.relu1");
    EXPECT_EQ(first.pass, pass);
    EXPECT_NEAR(first.error.linf, 1e-3, 1e-6);
    EXPECT_GT(first.worst_share, 1);
    EXPECT_THAT(first.reason, testing::HasSubstr("expected"));
    for (const NodeCheck& check : seen.checks)
      EXPECT_EQ(check.reason.empty(), &check != &first) << check.node << " " << check.reason;
    const Index wrong = pass == Pass::forward ? first.error.elements - 2 : 0;
    EXPECT_EQ(first.error.worst, wrong);
    ASSERT_TRUE(seen.first_error.present());
    EXPECT_NEAR(seen.first_error.values<double>()[wrong], 1e-3, 1e-6);
  }
}

// Every network on every backend that is here: what each node makes of its inputs, and its gradients.
class OnBackend : public testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(OnBackend, EveryNodeIsRight) {
  const auto& [backend_name, name] = GetParam();
  for (const BackendStatus& status : backend_statuses())
    if (status.name == backend_name && !status.available) GTEST_SKIP() << status.reason;
  const auto backend = open_backend(backend_name);
  const Graph graph = trained(name, tiny_networks().at(name));
  const Validation seen =
      validate(graph, all_values(graph), *backend, {.compile = {.mode = Mode::training}, .full_flops = 2e6});
  if (!seen.unsupported.empty()) GTEST_SKIP() << seen.unsupported;
  EXPECT_GE(seen.checks.size(), 2 * graph.nodes.size() - 12);
  for (const NodeCheck& check : seen.checks) {
    EXPECT_EQ(check.reason, "") << check.node << " (" << check.op << ")";
    EXPECT_EQ(check.skipped, "") << check.node << " (" << check.op << ")";
  }
}

// One of each family of residual networks: the others have the same nodes more often.
std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const auto& [name, values] : tiny_networks())
    if (!name.starts_with("resnet-") || name == "resnet-18" || name == "resnet-20" || name == "resnet-50")
      all.push_back(name);
  return all;
}
INSTANTIATE_TEST_SUITE_P(Networks, OnBackend,
                         testing::Combine(testing::Values("reference", "onednn", "torch"), testing::ValuesIn(names())),
                         [](const auto& info) {
                           std::string name = std::get<0>(info.param) + "_" + std::get<1>(info.param);
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

// Where a backend has no Attention, its products are there.
TEST(Validate, AttentionAsProducts) {
  for (const char* backend_name : {"onednn", "torch"}) {
    for (const BackendStatus& status : backend_statuses())
      if (status.name == backend_name && !status.available) GTEST_SKIP() << status.reason;
    const auto backend = open_backend(backend_name);
    for (const char* name : {"transformer-encoder", "transformer-decoder", "vit"}) {
      Attributes tiny = tiny_networks().at(name);
      tiny.set("attention", "products");
      const Graph graph = trained(name, tiny);
      const Validation seen = validate(graph, all_values(graph), *backend, {.compile = {.mode = Mode::training}});
      EXPECT_EQ(seen.unsupported, "") << backend_name << " " << name;
      EXPECT_FALSE(seen.first.has_value()) << backend_name << " " << name << " " << seen.checks[*seen.first].reason;
    }
  }
}

TEST(Validate, LargeNodesAreSampled) {
  const Graph graph = build_network("lenet", {}, 1, DType::f32, Mode::inference);
  const auto backend = open_backend("reference");
  const Validation seen = validate(graph, all_values(graph), *backend, {.full_flops = 1e5, .sample = 50});
  EXPECT_FALSE(seen.first.has_value());
  bool sampled = false;
  for (const NodeCheck& check : seen.checks) {
    if (check.compared < check.error.elements) {
      EXPECT_EQ(check.op, "Conv");
      EXPECT_EQ(check.compared, 51);
      sampled = true;
    }
  }
  EXPECT_TRUE(sampled);
}

TEST(Validate, SaysWhatItMisses) {
  const Graph graph = build_network("mlp", {}, 1, DType::f32, Mode::inference);
  auto values = all_values(graph);
  values.erase("layers.0.bias");
  const auto backend = open_backend("reference");
  EXPECT_THAT([&] { validate(graph, values, *backend, {}); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("layers.0.bias")));
  EXPECT_EQ(validate(graph, all_values(graph), *backend, {.compile = {.math = Math::bf16}}).unsupported,
            "the reference has strict arithmetic only");
}

TEST(Validate, Norms) {
  const Tensor a = Tensor::from<float>({2, 2}, {1, 2, 3, 4}), b = Tensor::from<float>({2, 2}, {1, 5, 3, 0});
  const Deviation seen = deviation(a, b);
  EXPECT_EQ(seen.l1, 7);
  EXPECT_EQ(seen.l2, 5);
  EXPECT_EQ(seen.linf, 4);
  EXPECT_EQ(seen.worst, 3);
  EXPECT_EQ(seen.largest, 5);
  EXPECT_THROW(deviation(a, a.reshaped({4})), Error);
}

TEST(Validate, TwoExecutables) {
  const Graph graph =
      with_all_outputs(build_network("lenet", tiny_networks().at("lenet"), 2, DType::f32, Mode::inference));
  const auto backend = open_backend("reference");
  ParameterSet first, second;
  const auto a = backend->compile(graph, first, {}), b = backend->compile(graph, second, {});
  for (const auto& [name, value] : all_values(graph)) {
    a->write(Executable::Role::value, name, value);
    const Tensor other = value.clone();
    if (name == "fc3.bias") other.values<float>()[1] += 1;
    b->write(Executable::Role::value, name, other);
  }
  a->forward({});
  b->forward({});
  for (const auto& [name, seen] : compare_values(graph, *a, *b)) {
    EXPECT_NEAR(seen.linf, name == "scores" ? 1 : 0, 1e-6) << name;
    EXPECT_EQ(seen.elements, infer_specs(graph).at(name).elements());
  }
}

TEST(Validate, HeatMap) {
  const Tensor values(DType::f32, {2, 4, 6});
  values.fill_bytes(0);
  values.values<float>()[24 + 3 * 6 + 5] = -7;  // the last row and column
  values.values<float>()[0] = 2;
  const Tensor map = heat_map(values, 2, 3);
  EXPECT_EQ(map.shape(), (Shape{2, 3}));
  EXPECT_THAT(std::vector<double>(map.values<double>().begin(), map.values<double>().end()),
              testing::ElementsAre(2, 0, 0, 0, 0, 7));
  EXPECT_EQ(heat_map(Tensor::scalar(3), 4, 4).shape(), (Shape{1, 1}));
}

}  // namespace
}  // namespace d5
