// SPDX-License-Identifier: Apache-2.0
// Whole networks against the oracle: every backend that is here passes, planted faults do not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "d5/bench/net_oracle_cache.hpp"
#include "d5/bench/net_problem.hpp"
#include "d5/bench/session.hpp"
#include "d5/core/convert.hpp"
#include "d5/networks/loss.hpp"
#include "tests/unit/networks/tiny.hpp"

namespace d5 {
namespace {

using ::testing::HasSubstr;
using Role = Executable::Role;

// The oracle's results are kept in the user's cache; a test must not find those of another build.
class OwnCache : public ::testing::Test {
 protected:
  OwnCache() : folder_(::testing::TempDir() + "/d5-net-" + std::to_string(getpid())) {
    setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
  }
  ~OwnCache() override { std::filesystem::remove_all(folder_); }
  std::string folder_;
};
class NetOracle : public OwnCache {};
class NetSession : public OwnCache {};

Graph tiny(const std::string& name, Index batch, Mode mode) {
  Graph graph = build_network(name, tiny_networks().at(name), batch, DType::f32, mode);
  const std::string loss = registered<networks>(name).loss;
  return mode == Mode::training && !loss.empty() ? with_loss(std::move(graph), loss) : graph;
}

struct OneRun {
  ParameterSet parameters;
  std::unique_ptr<Backend> backend = open_backend("reference");
  std::unique_ptr<Executable> executable;

  NetCheck operator()(const Graph& graph, Mode mode, const NetProblem& problem) {
    CompileOptions options;
    options.mode = mode;
    executable = backend->compile(graph, parameters, options);
    write_values(problem, *executable);
    executable->forward({});
    if (mode == Mode::training) executable->backward({});
    return check_network(problem, *executable);
  }
};

NetProblem problem_of(const Graph& graph, Mode mode) {
  NetProblem problem = make_net_inputs(graph, mode, 1);
  add_expected(graph, mode, Math::strict, 1, problem);
  return problem;
}

TEST_F(NetOracle, SeesAWeightThatIsOff) {
  for (const Mode mode : {Mode::inference, Mode::training}) {
    const Graph graph = tiny("lenet", 2, mode);
    NetProblem problem = problem_of(graph, mode);
    const NetCheck right = OneRun()(graph, mode, problem);
    EXPECT_TRUE(right.passed) << right.reason;
    EXPECT_GT(right.worst_share, 0);
    for (auto& [name, value] : problem.parameters)
      if (name == "conv2.weight") value.values<float>()[7] *= 1.01f;
    const NetCheck wrong = OneRun()(graph, mode, problem);
    EXPECT_FALSE(wrong.passed);
    EXPECT_THAT(wrong.reason, HasSubstr("its error is"));
  }
}

TEST_F(NetOracle, SeesAnOutputThatIsOffAndOneThatIsNotFinite) {
  const Graph graph = tiny("mlp", 2, Mode::inference);
  const NetProblem problem = problem_of(graph, Mode::inference);
  for (const float planted : {1e-3f, NAN}) {
    OneRun run;
    ASSERT_TRUE(run(graph, Mode::inference, problem).passed);
    const Tensor output = run.executable->read(Role::value, graph.outputs[0]);
    output.values<float>()[3] += planted;
    run.executable->write(Role::value, graph.outputs[0], output);
    EXPECT_FALSE(check_network(problem, *run.executable).passed) << planted;
  }
}

// The perturbed oracle tells what rounding may do: bf16 is far beyond it for f32, and within it for bf16.
TEST_F(NetOracle, ToleranceFollowsTheType) {
  const Graph graph = tiny("resnet-20", 2, Mode::inference);
  NetProblem problem = problem_of(graph, Mode::inference);
  for (auto& [name, value] : problem.parameters) value = value.cast(DType::bf16).cast(DType::f32);
  EXPECT_FALSE(OneRun()(graph, Mode::inference, problem).passed);
  NetProblem coarse = make_net_inputs(graph, Mode::inference, 1);
  add_expected(graph, Mode::inference, Math::bf16, 1, coarse);
  coarse.parameters = problem.parameters;
  const NetCheck check = OneRun()(graph, Mode::inference, coarse);
  EXPECT_TRUE(check.passed) << check.reason;
}

TEST_F(NetOracle, IntegersStayWithinWhatTheyIndex) {
  const Graph graph = tiny("lstm-lm", 3, Mode::training);
  for (const auto& [name, value] : make_net_inputs(graph, Mode::training, 1).inputs)
    if (value.dtype() == DType::i64) {
      Index largest = 0;
      for (const int64_t v : value.values<int64_t>()) {
        EXPECT_GE(v, 0);
        EXPECT_LT(v, 11);
        largest = std::max(largest, v);
      }
      EXPECT_GT(largest, 3) << name;
    }
}

TEST_F(NetOracle, IsKeptAndSurvivesABrokenFile) {
  const Graph graph = tiny("mlp", 2, Mode::inference);
  const NetProblem first = problem_of(graph, Mode::inference);
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_))
    if (entry.path().extension() == ".bin") files.push_back(entry.path());
  ASSERT_EQ(files.size(), 1u);
  const auto same = [&](const NetProblem& other) {
    return other.expected.size() == 1 && other.expected[0].tolerance == first.expected[0].tolerance &&
           std::memcmp(other.expected[0].values.data(), first.expected[0].values.data(),
                       first.expected[0].values.bytes()) == 0;
  };
  EXPECT_TRUE(same(problem_of(graph, Mode::inference)));
  std::filesystem::resize_file(files[0], std::filesystem::file_size(files[0]) - 5);
  EXPECT_TRUE(same(problem_of(graph, Mode::inference)));
  std::ofstream(files[0]) << "{}";
  EXPECT_TRUE(same(problem_of(graph, Mode::inference)));
  EXPECT_NE(oracle_key(graph, "a"), oracle_key(graph, "b"));
  EXPECT_NE(oracle_key(graph, "a"), oracle_key(tiny("mlp", 3, Mode::inference), "a"));
}

// One of each family: deeper ones are more of the same.
class NetSessionOf : public OwnCache, public ::testing::WithParamInterface<std::string> {};
INSTANTIATE_TEST_SUITE_P(Networks, NetSessionOf,
                         ::testing::Values("mlp", "lenet", "alexnet", "inception-v3", "resnet-18", "resnet-20",
                                           "squeezenet", "mobilenet-v2", "densenet-121", "unet", "tiramisu",
                                           "deeplab-v3-plus", "hep-cnn", "dcgan-generator", "dcgan-discriminator",
                                           "lstm-lm", "transformer-encoder", "transformer-decoder", "vit"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST_P(NetSessionOf, PassesOnEveryBackendThatHasIt) {
  int passed = 0;
  for (const BackendStatus& status : backend_statuses()) {
    if (!status.available || status.foreign) continue;
    for (const char* pass : {"forward", "step"}) {
      Json fields = to_json(tiny_networks().at(GetParam()));
      fields.update({{"kind", "net"}, {"network", GetParam()}, {"backend", status.name}, {"batch", 5}, {"pass", pass}});
      const Bench& bench = bench_of(fields);
      const Json complete = bench.complete(fields);
      bench.check_case(complete);
      const Outcome outcome = bench.open(complete)->prepare(Depth::check);
      EXPECT_TRUE(outcome.status == "passed" || outcome.status == "unsupported")
          << bench.rerun(complete) << ": " << outcome.status << ": " << outcome.reason;
      passed += outcome.status == "passed";
    }
  }
  EXPECT_GE(passed, 2);
}

TEST_F(NetSession, WrongFieldsAreNamed) {
  const auto complete = [](Json fields) {
    fields["kind"] = "net";
    return bench_of(fields).complete(fields);
  };
  EXPECT_THROW(complete({{"network", "resnet-51"}}), FieldError);
  EXPECT_THROW(complete({{"network", "nowhere.onnx"}}), FieldError);
  EXPECT_THROW(complete({{"network", "lenet"}, {"bach", 3}}), FieldError);
  EXPECT_THROW(complete({{"network", "lenet"}, {"batch", 0}}), FieldError);
  EXPECT_THROW(complete({{"network", "lenet"}, {"pass", "both"}}), FieldError);
  EXPECT_THROW(complete({}), FieldError);
}

}  // namespace
}  // namespace d5
