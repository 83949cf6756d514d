// SPDX-License-Identifier: Apache-2.0
// Transforms leave results as they are: the transformed network is checked against the oracle of the one before.
#include "d5/graph/transform.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "d5/bench/net_problem.hpp"
#include "d5/bench/session.hpp"
#include "d5/bench/step_split.hpp"
#include "d5/graph/edit.hpp"
#include "d5/graph/sizes.hpp"
#include "d5/networks/loss.hpp"
#include "tests/unit/bench/random_networks.hpp"
#include "tests/unit/networks/tiny.hpp"

namespace d5 {
namespace {

class OwnCache {
 protected:
  OwnCache() : folder_(::testing::TempDir() + "/d5-transforms-" + std::to_string(getpid())) {
    setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
  }
  ~OwnCache() { std::filesystem::remove_all(folder_); }
  std::string folder_;
};
class Transforms : public ::testing::TestWithParam<const char*>, OwnCache {};

TEST_P(Transforms, LeaveResultsAsTheyAre) {
  for (const std::string name : {"lenet", "resnet-20", "squeezenet", "dcgan-discriminator", "transformer-encoder"})
    for (const Mode mode : {Mode::inference, Mode::training}) {
      Graph graph = build_network(name, tiny_networks().at(name), 3, DType::f32, mode);
      const std::string loss = registered<networks>(name).loss;
      if (mode == Mode::training && !loss.empty()) graph = with_loss(std::move(graph), loss);
      NetProblem problem = make_net_inputs(graph, mode, 1);
      add_expected(graph, mode, Math::strict, 1, problem);

      const Graph changed = transformed(graph, GetParam());
      const auto backend = open_backend("reference");
      ParameterSet parameters;
      const Execution execution = execution_of(GetParam());
      CompileOptions options;
      options.mode = mode;
      options.fuse = execution.fuse;
      if (execution.tile_cache) options.tile_cache = *execution.tile_cache;
      options.recompute_above = execution.recompute ? 1 : 0;
      ASSERT_EQ(backend->why_not(changed, options), std::nullopt) << name;
      const auto executable = backend->compile(changed, parameters, options);
      write_values(problem, *executable);
      executable->forward({});
      if (mode == Mode::training) executable->backward({});
      const NetCheck check = check_network(problem, *executable);
      EXPECT_TRUE(check.passed) << name << (mode == Mode::training ? ", training: " : ": ") << check.reason;
    }
}
INSTANTIATE_TEST_SUITE_P(Each, Transforms,
                         ::testing::Values("none", "dead-code", "fold", "batch:3", "micro-batch:2", "fusion:off",
                                           "tiles:1", "checkpoint:auto",
                                           "micro-batch:1,dead-code,fold,checkpoint:auto"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name)
                             if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
                           return name;
                         });

// ---- random networks
// What each transform is tried with; batch:4 is the batch that the networks have.
const std::map<std::string, std::vector<std::string>>& values_of_transforms() {
  static const std::map<std::string, std::vector<std::string>> values{
      {"none", {"none"}},
      {"fold", {"fold", "fold,dead-code"}},
      {"dead-code", {"dead-code"}},
      {"batch", {"batch:4"}},
      {"fusion", {"fusion:off", "fusion:on"}},
      {"tiles", {"tiles:off", "tiles:on", "tiles:1"}},
      {"checkpoint", {"checkpoint:auto", "checkpoint:0.01"}},
      {"micro-batch", {"micro-batch:1", "micro-batch:3", "micro-batch:3,fold,dead-code,checkpoint:auto"}},
      {"accumulate", {"accumulate:2", "accumulate:1"}},
      {"precision", {"precision:f64", "precision:bf16", "precision:f16"}}};
  return values;
}

class RandomNetworks : public ::testing::Test, OwnCache {
 protected:
  static constexpr Index batch = 4;

  // What the network gives after the transforms, written and run as they ask.
  static NetCheck check(const Graph& graph, Mode mode, const NetProblem& problem, const std::string& transforms) {
    const Graph changed = transformed(graph, transforms);
    const Execution execution = execution_of(transforms);
    CompileOptions options;
    options.mode = mode;
    options.fuse = execution.fuse;
    if (execution.tile_cache) options.tile_cache = *execution.tile_cache;
    options.recompute_above = execution.recompute ? std::max<size_t>(1, execution.recompute_bytes) : 0;
    Graph compiled = changed;
    if (execution.split) bind_batch(compiled, execution.split_samples);
    const auto backend = open_backend("reference");
    const DType type = changed.inputs[0].spec.dtype;
    ParameterSet parameters(type == DType::f64 ? DType::f32 : type);
    auto executable = backend->compile(compiled, parameters, options);
    if (execution.split) executable = split_step(std::move(executable), changed, compiled, mode);
    NetProblem typed = problem;
    for (auto* values : {&typed.parameters, &typed.inputs, &typed.output_gradients})
      for (auto& [name, value] : *values) value = value.cast(type);
    write_values(typed, *executable);
    executable->forward({});
    if (mode == Mode::training) executable->backward({});
    return check_network(problem, *executable);
  }

  // A narrow type may move results by what its own oracle says, where all begin with numbers that it holds.
  static NetProblem problem_of(const Graph& graph, Mode mode, uint64_t seed, const std::string& transforms) {
    const Graph changed = transformed(graph, transforms);
    NetProblem problem = make_net_inputs(graph, mode, seed);
    const DType type = changed.inputs[0].spec.dtype;
    for (auto* values : {&problem.parameters, &problem.inputs})
      for (auto& [name, value] : *values) value = value.cast(type).cast(value.dtype());
    NetProblem narrow = problem;
    // The cache of the oracle knows the seed, not the values.
    add_expected(graph, mode, Math::strict, bits(type) >= 32 ? seed : seed + 1000 * static_cast<uint64_t>(type),
                 problem);
    if (bits(type) >= 32) return problem;
    for (auto* values : {&narrow.parameters, &narrow.inputs, &narrow.output_gradients})
      for (auto& [name, value] : *values) value = value.cast(type);
    add_expected(changed, mode, Math::strict, seed, narrow);
    for (size_t i = 0; i < problem.expected.size(); ++i) problem.expected[i].tolerance += narrow.expected[i].tolerance;
    return problem;
  }
};

TEST_F(RandomNetworks, KeepTheirResultsInEveryTransform) {
  for (const std::string& name : registry_names(transforms::kind))
    ASSERT_TRUE(values_of_transforms().contains(name)) << name << " is tried on no random network";
  size_t convolutions = 0, checks = 0, with_power = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed)
    for (const Mode mode : {Mode::inference, Mode::training}) {
      const Graph graph = RandomNetwork(seed, batch).build(mode);
      convolutions += find_nodes(graph, "Conv").size();
      for (const auto& [transform, values] : values_of_transforms())
        for (const std::string& value : values) {
          if (transform == "accumulate" && (mode == Mode::inference || !depends_on_batch(graph).empty())) continue;
          const NetCheck check = RandomNetworks::check(graph, mode, problem_of(graph, mode, seed, value), value);
          EXPECT_TRUE(check.passed) << "seed " << seed << (mode == Mode::training ? ", training, " : ", ") << value
                                    << ": " << check.reason;
          ++checks;
          with_power += !check.powerless;
        }
    }
  EXPECT_GT(convolutions, 40u);
  EXPECT_GT(with_power, checks * 8 / 10);
}

TEST(Transform, AnotherBatchIsTheNetworkBuiltForIt) {
  for (const std::string name : {"lenet", "resnet-20", "transformer-encoder", "lstm-lm"}) {
    const auto build = [&](Index batch) {
      Graph graph = build_network(name, tiny_networks().at(name), batch, DType::f32, Mode::training);
      return with_loss(std::move(graph), registered<networks>(name).loss);
    };
    const Specs changed = infer_specs(transformed(build(3), "batch:5")), built = infer_specs(build(5));
    ASSERT_EQ(changed.size(), built.size());
    for (const auto& [value, spec] : built) EXPECT_EQ(changed.at(value).shape, spec.shape) << name << ": " << value;
  }
}

TEST(Transform, AsksForWhatAGraphCannotSay) {
  const Execution asked = execution_of("fusion:off,checkpoint:1.5,accumulate:4,micro-batch:auto");
  EXPECT_FALSE(asked.fuse);
  EXPECT_TRUE(asked.recompute);
  EXPECT_EQ(asked.recompute_bytes, size_t{3} << 19);
  EXPECT_TRUE(asked.split);
  EXPECT_EQ(asked.split_samples, 4);
  EXPECT_EQ(asked.divide, Execution::Division::shared);
  EXPECT_EQ(execution_of("micro-batch:side-by-side").divide, Execution::Division::side_by_side);
  EXPECT_EQ(execution_of("micro-batch:8").divide, Execution::Division::none);
}

TEST(Transform, WrongNamesAndValuesAreNamed) {
  EXPECT_THROW(transformed({}, "dead-cod"), UsageError);
  EXPECT_THROW(transformed({}, "micro-batch:0"), UsageError);
  EXPECT_THROW(transformed({}, "micro-batch:8x"), UsageError);
  EXPECT_THROW(transformed({}, "dead-code:3"), UsageError);
  for (const char* wrong : {"none:1", "fold:1", "batch:0", "batch:x", "fusion:maybe", "checkpoint:0", "checkpoint:x",
                            "accumulate:0", "accumulate:1.5", "tiles:0", "tiles:-1", "tiles:many"})
    EXPECT_THROW(transformed({}, wrong), UsageError) << wrong;
}

}  // namespace
}  // namespace d5
