// SPDX-License-Identifier: Apache-2.0
// The views of a network: node by node, as a trace, operators alone and in context, with observers of one's own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "d5/bench/net_alone.hpp"
#include "d5/bench/net_case.hpp"
#include "d5/bench/session.hpp"
#include "d5/bench/step_observer.hpp"
#include "d5/measure/clock.hpp"
#include "tests/unit/networks/planted.hpp"
#include "tests/unit/networks/tiny.hpp"
#include "trace_format.hpp"

namespace d5 {
D5_REGISTER_KERNEL(reference, "Relu", "planted", PlantedRelu);
D5_REGISTER(backends, "planted", PlantedBackend);

namespace {

using ::testing::HasSubstr;

// What it is told, in words.
class Listener final : public Meter, public StepObserver {
 public:
  std::string about() const override { return "words"; }
  std::string unit() const override { return "1"; }
  int steps() const override { return 2; }
  void network(const Graph& graph, const CompileOptions&) override { nodes_ = graph.nodes.size(); }
  void step_begin() override { words_ += "step("; }
  void step_end() override { words_ += ")"; }
  void pass_begin(Pass pass) override { words_ += pass == Pass::forward ? "forward(" : "backward("; }
  void pass_end(Pass) override { words_ += ")"; }
  void node_begin(const Node&, Pass) override { words_ += "<"; }
  void node_end(const Node&, Pass) override { words_ += ">"; }
  void gradient_ready(const Gradient&) override { words_ += "!"; }
  nlohmann::json report(const std::string&) override {
    if (words_.empty()) return nullptr;
    return {{"words", words_}, {"nodes", nodes_}};
  }
  std::optional<Metric> value(const Measured& m) const override {
    return Metric{.unit = "1", .median = m.reports.at(0).at("nodes").get<double>()};
  }

 private:
  std::string words_;
  size_t nodes_ = 0;
};
}  // namespace
D5_REGISTER(metrics, "listener", Listener);
namespace {

class NetViews : public ::testing::Test {
 protected:
  NetViews() : folder_(::testing::TempDir() + "/d5-views-" + std::to_string(getpid())) {
    setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
    std::filesystem::create_directories(folder_);
  }
  ~NetViews() override {
    PlantedFault::node.clear();
    PlantedFault::size = 1e-3f;
    std::filesystem::remove_all(folder_);
  }

  static Json fields(const std::string& kind, const std::string& network, const std::string& backend,
                     const std::string& pass) {
    Json fields = to_json(tiny_networks().at(network));
    fields.update({{"kind", kind}, {"network", network}, {"backend", backend}, {"batch", 3}, {"pass", pass}});
    return bench_of(fields).complete(fields);
  }
  static std::vector<std::string> backends_here() {
    std::vector<std::string> names;
    for (const BackendStatus& status : backend_statuses())
      if (status.available && !status.foreign && status.name != "planted") names.push_back(status.name);
    return names;
  }
  static Record record_of(const Json& fields, const Outcome& outcome, std::vector<std::string> metrics = {}) {
    CaseResult result{.fields = fields, .status = outcome.status, .reason = outcome.reason};
    result.prepared = {outcome.details};
    result.metrics = std::move(metrics);
    return bench_of(fields).record(result);
  }

  std::string folder_;
};

TEST_F(NetViews, ValidationFindsAPlantedFaultAtItsNode) {
  for (const char* pass : {"forward", "backward"}) {
    const Json one = fields("net-validate", "resnet-20", "planted", "step");
    PlantedFault::node = "layer2.1.relu1";
    PlantedFault::pass = std::string(pass) == "forward" ? Pass::forward : Pass::backward;
    const auto session = bench_of(one).open(one);
    session->want({{"difference_map"}, folder_ + "/case"});
    const Outcome outcome = session->prepare(Depth::check);
    EXPECT_EQ(outcome.status, "failed");
    EXPECT_THAT(outcome.reason,
                HasSubstr(fmt::format("the first node that deviates is 'layer2.1.relu1' (Relu, {})", pass)));
    const Json& first = outcome.details.at("nodes").at(outcome.details.at("first").get<size_t>());
    EXPECT_EQ(first.at("node"), "layer2.1.relu1");
    EXPECT_NEAR(first.at("error").at("linf").get<double>(), 1e-3, 1e-6);
    EXPECT_GT(first.at("worst_share_of_tolerance").get<double>(), 1);
    size_t deviate = 0;
    for (const Json& node : outcome.details.at("nodes")) deviate += node.contains("reason");
    EXPECT_EQ(deviate, 1u);
    // One picture: of the value that deviates.
    const Json files = outcome.details.at("metrics").at("difference_map").at("files");
    ASSERT_EQ(files.size(), 1u);
    EXPECT_TRUE(std::filesystem::exists(folder_ + "/" + files[0].get<std::string>())) << files;
    const Record record = record_of(one, outcome);
    EXPECT_EQ(record.kind, "net-validate");
    EXPECT_THAT(record.rerun, HasSubstr("--validate"));
  }
}

TEST_F(NetViews, ValidationPassesOnEveryBackend) {
  for (const std::string& backend : backends_here())
    for (const char* pass : {"forward", "step"}) {
      const Json one = fields("net-validate", "lenet", backend, pass);
      const Outcome outcome = bench_of(one).open(one)->prepare(Depth::check);
      if (outcome.status == "unsupported") continue;
      EXPECT_EQ(outcome.status, "passed") << backend << " " << outcome.reason;
      EXPECT_GE(outcome.details.at("nodes").size(), network_of(one).nodes.size()) << backend;
      const Record record = record_of(one, outcome);
      ASSERT_TRUE(record.metric("error_linf"));
      EXPECT_GT(record.metric("error_l1")->median, 0);
    }
}

TEST_F(NetViews, ATraceIsInTheFormatAndItsPartsAgreeWithTheStep) {
  for (const std::string& backend : backends_here())
    for (const char* pass : {"forward", "backward", "step"}) {
      const Json one = fields("net", "lenet", backend, pass);
      const auto session = bench_of(one).open(one);
      session->want({{"trace"}, folder_ + "/" + backend + pass});
      const Outcome outcome = session->prepare(Depth::check);
      if (outcome.status == "unsupported") continue;
      ASSERT_EQ(outcome.status, "passed") << backend << " " << outcome.reason;
      const Json report = outcome.details.at("metrics").at("trace");
      if (report.contains("unavailable")) continue;  // it does not tell
      const Json trace = read_json(folder_ + "/" + report.at("file").get<std::string>());
      const auto sums = expect_trace(trace, 1);
      const double step = sums.at("executor"), passes = sums.at("pass"), operators = sums.at("operator");
      EXPECT_LE(passes, step + 1e-3) << backend;
      EXPECT_LE(operators, passes + 1e-3) << backend;
      EXPECT_GT(operators, 0.2 * step) << backend;  // the sum is closed but for the executor's own
      EXPECT_NEAR(report.at("step_s").get<double>() * 1e6, step, 1e-2);
      EXPECT_NEAR(report.at("operators_s").get<double>() * 1e6, operators,
                  1e-2 * static_cast<double>(report.at("operators")));
      EXPECT_EQ(report.at("lost"), 0);
      const size_t nodes = network_of(one).nodes.size();
      EXPECT_GE(report.at("operators").get<size_t>(), nodes / 3) << backend;
      int gradients = 0;
      for (const Json& event : trace.at("traceEvents")) gradients += event.at("ph") == "i";
      EXPECT_EQ(gradients > 0, std::string(pass) != "forward") << backend;
    }
}

TEST_F(NetViews, ObserversSeeStepsInOrder) {
  for (const char* pass : {"forward", "step"}) {
    const Json one = fields("net", "mlp", "reference", pass);
    const auto session = bench_of(one).open(one);
    session->want({{"listener"}, folder_ + "/x"});
    const Outcome outcome = session->prepare(Depth::check);
    ASSERT_EQ(outcome.status, "passed") << outcome.reason;
    const Json report = outcome.details.at("metrics").at("listener");
    const size_t nodes = report.at("nodes");
    EXPECT_EQ(nodes, network_of(one).nodes.size());
    const std::string words = report.at("words");
    std::string forward = "step(forward(";
    for (size_t i = 0; i < nodes; ++i) forward += "<>";
    EXPECT_TRUE(words.starts_with(forward + ")")) << words;
    EXPECT_THAT(words, testing::EndsWith(std::string(pass) == "forward" ? "<>))" : "!))"));
    EXPECT_EQ(words.substr(0, words.size() / 2), words.substr(words.size() / 2)) << "two steps alike";
    EXPECT_EQ(record_of(one, outcome, {"listener"}).metric("listener")->median, static_cast<double>(nodes));
  }
}

TEST_F(NetViews, ContextClosesTheSum) {
  for (const std::string& backend : backends_here())
    for (const char* pass : {"forward", "step"}) {
      Json one = fields("net-context", "resnet-20", backend, pass);
      one["top"] = 3;
      const Outcome outcome = bench_of(one).open(one)->prepare(Depth::check);
      if (outcome.status == "unsupported") continue;
      ASSERT_EQ(outcome.status, "passed") << backend << " " << outcome.reason;
      const Json& context = outcome.details.at("context");
      double sum = context.at("residual_s"), last = INFINITY, flops = 0;
      EXPECT_GE(sum, 0);
      size_t alone = 0, nodes = 0;
      for (const Json& row : context.at("rows")) {
        const double in_situ = row.at("in_situ_s");
        EXPECT_LE(in_situ, last) << "the most expensive first";
        last = in_situ;
        sum += in_situ;
        flops += row.at("flops").get<double>();
        nodes += row.at("nodes").get<size_t>();
        if (row.contains("alone")) ++alone;
        if (!row.contains("hot_s")) continue;
        ++alone;
        EXPECT_GT(row.at("hot_s").get<double>(), 0);
        EXPECT_GT(row.at("cold_s").get<double>(), 0);
      }
      EXPECT_EQ(alone, 3u) << backend;
      EXPECT_GT(nodes, 10u);
      const double whole = context.at("whole_s");
      EXPECT_NEAR(sum, whole, 1e-9 * whole) << backend;
      EXPECT_DOUBLE_EQ(flops, context.at("flops").get<double>());
      EXPECT_THAT(record_of(one, outcome).rerun, HasSubstr("--context --top 3"));
    }
}

// As an executor shows what it computes together.
TEST_F(NetViews, JoinedNodesAreFoundAndTimedTogether) {
  const Graph named{.nodes = {{.op = "A", .name = "a"}, {.op = "B", .name = "a+b"}, {.op = "C", .name = "b"}}};
  const auto found = [&](const char* shown) { return nodes_shown_as(named, shown); };
  using Nodes = std::vector<size_t>;
  EXPECT_EQ(found("a"), Nodes{0});
  EXPECT_EQ(found("a+b"), Nodes{1});
  EXPECT_EQ(found("b+a"), (Nodes{0, 2}));
  EXPECT_EQ(found("a+b+b"), (Nodes{1, 2}));
  EXPECT_EQ(found("a to channels last"), Nodes{});
  EXPECT_EQ(found("a+"), Nodes{});

  for (const std::string& backend : backends_here())
    for (const char* pass : {"forward", "step"}) {
      NetRun net(fields("net", "lenet", backend, pass));
      const Outcome outcome = net.open(Depth::check);
      if (outcome.status != "passed") continue;
      const auto joined = nodes_shown_as(net.graph(), "conv2+conv2.activation");
      ASSERT_EQ(joined.size(), 2u);
      AloneTimer timer(net, {joined.begin(), joined.end()});
      for (const Pass of : {Pass::forward, Pass::backward}) {
        if (of == Pass::backward && std::string(pass) == "forward") continue;
        const AloneTimes both = timer.time(joined, of), one = timer.time({joined[0]}, of);
        EXPECT_EQ(both.why_not + one.why_not, "") << backend;
        EXPECT_GT(both.hot_s, 0);
        EXPECT_GT(both.cold_s, 0);
        EXPECT_GE(both.hot_samples, 7u);
      }
    }
}

TEST_F(NetViews, AFailedCheckHasNoContext) {
  PlantedFault::node = "layer2.1.relu1";
  PlantedFault::pass = Pass::forward;
  PlantedFault::size = 1;
  Json one = fields("net-context", "resnet-20", "planted", "forward");
  one["batch"] = 2;  // the oracle looks at two samples
  const Outcome outcome = bench_of(one).open(one)->prepare(Depth::check);
  EXPECT_EQ(outcome.status, "failed");
  EXPECT_FALSE(outcome.details.contains("context"));
}

}  // namespace
}  // namespace d5
