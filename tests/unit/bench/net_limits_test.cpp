// SPDX-License-Identifier: Apache-2.0
// Networks under a limit of memory: a batch that does not fit runs in pieces, as a step in parts, or with values that
// are computed again, and gives the results of the whole.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "d5/bench/net_case.hpp"
#include "d5/bench/net_problem.hpp"
#include "d5/bench/step_split.hpp"
#include "d5/core/convert.hpp"
#include "d5/graph/integer_program.hpp"
#include "tests/sanitized.hpp"
#include "tests/unit/networks/tiny.hpp"

namespace d5 {
namespace {

using ::testing::HasSubstr;
using Role = Executable::Role;

bool is_on(const std::string& backend) {
  for (const BackendStatus& status : backend_statuses())
    if (status.name == backend) return status.available;
  return false;
}

class NetLimits : public ::testing::Test {
 protected:
  NetLimits() : folder_(::testing::TempDir() + "/d5-limits-" + std::to_string(getpid())) {
    setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
  }
  ~NetLimits() override { std::filesystem::remove_all(folder_); }

  static Json fields_of(const std::string& network, const Json& more) {
    Json fields = to_json(tiny_networks().at(network));
    fields.update({{"kind", "net"}, {"network", network}, {"batch", 8}, {"pass", "step"}});
    fields.update(more);
    return bench_of(fields).complete(fields);
  }
  static Outcome check(const std::string& network, const Json& more) {
    const Json fields = fields_of(network, more);
    return bench_of(fields).open(fields)->prepare(Depth::check);
  }
  static double mebibytes(const Json& bytes) { return bytes.get<double>() / (1 << 20); }

  std::string folder_;
};

TEST_F(NetLimits, AConvolutionThatDoesNotFitIsDivided) {
  if (!is_on("onednn")) GTEST_SKIP() << "onednn is off";
  for (const char* pass : {"forward", "step"})
    for (const std::string how : {"auto", "side-by-side"}) {
      if (how != "auto" && !integer_solver()) continue;
      SCOPED_TRACE(std::string(pass) + " " + how);
      const Json hungry{{"backend", "onednn"}, {"kernel", "im2col"}, {"size", 32}, {"batch", 16}, {"pass", pass}};
      const Outcome whole = check("lenet", hungry);
      ASSERT_EQ(whole.status, "passed") << whole.reason;
      Json limited = hungry;
      limited["arena_limit"] = 0.6 * mebibytes(whole.details["memory_bytes"]);
      const Outcome refused = check("lenet", limited);
      EXPECT_EQ(refused.status, "unsupported");
      EXPECT_THAT(refused.reason, HasSubstr("MiB for a step, the limit is"));
      limited["transform"] = "micro-batch:" + how;
      const Outcome divided = check("lenet", limited);
      ASSERT_EQ(divided.status, "passed") << divided.reason;
      EXPECT_LE(mebibytes(divided.details["memory_bytes"]), limited["arena_limit"].get<double>());
      const Json& plan = divided.details["micro_batches"];
      ASSERT_FALSE(plan["pieces"].empty());
      for (const auto& [node, sizes] : plan["pieces"].items()) {
        Index sum = 0;
        for (const Json& alike : sizes) sum += alike[0].get<Index>() * alike[1].get<Index>();
        EXPECT_EQ(sum, 16) << node;
      }
      EXPECT_EQ(check("lenet", limited).details["micro_batches"]["sizes_measured_now"], 0) << "times are kept";
      limited["arena_limit"] = 0.001;
      EXPECT_EQ(check("lenet", limited).status, "unsupported");
    }
}

TEST_F(NetLimits, AStepInPartsHasTheGradientsOfTheWhole) {
  for (const std::string backend : {"reference", "onednn", "torch"}) {
    if (!is_on(backend)) continue;
    for (const std::string network : {"mlp", "lenet", "transformer-encoder", "lstm-lm"}) {
      SCOPED_TRACE(backend + ", " + network);
      // Softmax does not depend on the bias of keys: its gradient is rounding alone.
      const auto run = [&](const std::string& transform) {
        const Json fields = fields_of(network, {{"backend", backend}, {"transform", transform}});
        auto session = bench_of(fields).open(fields);
        const Outcome outcome = session->prepare(Depth::check);
        EXPECT_EQ(outcome.status, "passed") << outcome.reason;
        EXPECT_EQ(outcome.details.contains("warnings"), false);
        std::map<std::string, Tensor> results;
        for (const GraphInput& input : network_of(fields).inputs)
          if (input.parameter && input.differentiable && !input.name.ends_with("key.bias"))
            results[input.name] = session->fetch("gradient " + input.name);
        results["loss"] = session->fetch("loss");
        return results;
      };
      const auto whole = run("none"), parts = run("accumulate:2");
      for (const auto& [name, tensor] : whole) {
        double error = 0, size = 0;
        for (Index i = 0; i < tensor.elements(); ++i) {
          const double a = load_as_double(tensor.dtype(), tensor.data(), i);
          error += std::pow(a - load_as_double(tensor.dtype(), parts.at(name).data(), i), 2);
          size += a * a;
        }
        // Sums over at most 8 x 256 places in another order, through at most 40 nodes.
        EXPECT_LE(std::sqrt(error), 40 * 6 * std::sqrt(8 * 256) * 0x1p-24 * std::sqrt(size)) << name;
      }
    }
  }
}

TEST_F(NetLimits, AMeanOfPartsIsWeightedByTheirNumber) {
  // Without the division by the number of parts the gradient would be four times as large; with it a planted factor of
  // the seed shows.
  const Json fields = fields_of("mlp", {{"backend", "reference"}});
  const Graph whole = network_of(fields), part = network_of(fields, 2);
  const auto backend = open_backend("reference");
  CompileOptions options;
  options.mode = Mode::training;
  NetProblem problem = make_net_inputs(whole, Mode::training, 1);
  add_expected(whole, Mode::training, Math::strict, 1, problem);
  ParameterSet parameters;
  const auto split = split_step(backend->compile(part, parameters, options), whole, part, Mode::training);
  const auto check = [&] {
    split->forward({});
    split->backward({});
    return check_network(problem, *split);
  };
  write_values(problem, *split);
  EXPECT_TRUE(check().passed);
  EXPECT_TRUE(check().passed) << "a second step starts anew";
  const Tensor seed = problem.output_gradients[0].second.clone();
  seed.values<float>()[0] *= 1.001f;
  split->write(Role::gradient, problem.output_gradients[0].first, seed);
  EXPECT_FALSE(check().passed);
}

TEST_F(NetLimits, StatisticsOfPartsAreSaid) {
  const Outcome outcome = check("resnet-20", {{"backend", "reference"}, {"transform", "accumulate:4"}});
  EXPECT_EQ(outcome.status, "passed") << outcome.reason;
  ASSERT_EQ(outcome.details["warnings"].size(), 1u);
  EXPECT_THAT(outcome.details["warnings"][0].get<std::string>(), HasSubstr("statistics of a part of the batch"));
  EXPECT_EQ(check("mlp", {{"transform", "accumulate:2"}, {"pass", "backward"}}).status, "unsupported");
  EXPECT_THROW(check("mlp", {{"transform", "accumulate:3"}}), UsageError);
}

TEST_F(NetLimits, AStepThatDoesNotFitIsDivided) {
  for (const std::string backend : {"onednn", "torch"}) {
    if (!is_on(backend)) continue;
    SCOPED_TRACE(backend);
    const Json hungry{{"backend", backend}, {"size", 32}, {"batch", 64}};
    const Outcome whole = check("lenet", hungry);
    ASSERT_EQ(whole.status, "passed") << whole.reason;
    Json limited = hungry;
    limited["arena_limit"] =
        0.5 * (mebibytes(whole.details["memory"]["planned_bytes"]) - mebibytes(whole.details["parameter_bytes"]));
    const Outcome refused = check("lenet", limited);
    EXPECT_EQ(refused.status, "unsupported");
    EXPECT_THAT(refused.reason, HasSubstr("MiB for a step, the limit is"));
    limited["transform"] = "accumulate:auto";
    const Outcome parts = check("lenet", limited);
    ASSERT_EQ(parts.status, "passed") << parts.reason;
    EXPECT_GE(parts.details["accumulate"]["parts"], 2);
    EXPECT_LE(mebibytes(parts.details["memory_bytes"]), limited["arena_limit"].get<double>());
  }
}

TEST_F(NetLimits, ValuesAreComputedAgainWithinTheLimit) {
  for (const std::string backend : {"reference", "onednn"}) {
    if (!is_on(backend)) continue;
    const Json net{{"backend", backend}, {"size", sanitized ? 8 : 16}, {"width", sanitized ? 4 : 8}};
    const Outcome whole = check("resnet-20", net);
    Json limited = net;
    limited["arena_limit"] = 0.8 * mebibytes(whole.details["memory_bytes"]);
    EXPECT_EQ(check("resnet-20", limited).status, "unsupported");
    limited["transform"] = "checkpoint:auto";
    const Outcome again = check("resnet-20", limited);
    ASSERT_EQ(again.status, "passed") << again.reason;
    EXPECT_LE(mebibytes(again.details["memory_bytes"]), limited["arena_limit"].get<double>());
  }
}

TEST_F(NetLimits, ThroughputCountsTheSamplesOfAStep) {
  EXPECT_EQ(check("mlp", {{"transform", "batch:6"}}).details["samples_per_step"], 6);
  EXPECT_EQ(check("mlp", {{"transform", "accumulate:2"}}).details["samples_per_step"], 8);
  EXPECT_THROW(fields_of("mlp", {{"arena_limit", -1}}), FieldError);
}

}  // namespace
}  // namespace d5
