// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/net_session.hpp"

#include <map>

#include "d5/bench/net_case.hpp"
#include "d5/bench/net_problem.hpp"
#include "d5/bench/step_timer.hpp"
#include "d5/core/parallel.hpp"
#include "d5/measure/clock.hpp"

namespace d5 {
namespace {

Json to_json(const NetCheck& check) {
  return {{"linf", check.linf},
          {"l1", check.l1},
          {"l2", check.l2},
          {"worst_share_of_tolerance", check.worst_share},
          {"compared", check.compared}};
}

Json to_json(const Facts& facts) {
  Json json = Json::object();
  for (const auto& [name, value] : facts) json[name] = value;
  return json;
}

// Time by node, and what is left of the step: the framework's own.
class Breakdown final : public Observer {
 public:
  void node_begin(const Node&, Pass) override { begin_ = now_seconds(); }
  void node_end(const Node& node, Pass pass) override {
    seconds_[{node.op, pass}].push_back(now_seconds() - begin_);
    nodes_ += seconds_[{node.op, pass}].back();
  }
  double nodes() const { return nodes_; }
  const std::map<std::pair<std::string, Pass>, std::vector<double>>& by_operator() const { return seconds_; }

 private:
  double begin_ = 0, nodes_ = 0;
  std::map<std::pair<std::string, Pass>, std::vector<double>> seconds_;
};

class NetSession final : public Session {
 public:
  explicit NetSession(Json fields) : fields_(std::move(fields)), pass_(net_pass(fields_)) {}

  void want(const MetricRequest& request) override { meters_ = Meters(request); }

  Outcome prepare(Depth depth) override {
    Outcome outcome;
    if (depth == Depth::list) return outcome;
    set_threads(fields_.at("threads").get<int>());
    try {
      backend_ = open_backend(fields_.at("backend").get<std::string>());
    } catch (const UsageError&) {
      throw;
    } catch (const Error& error) {
      return {.status = "unsupported", .reason = error.what()};
    }
    const Graph graph = network_of(fields_);
    const CompileOptions options = net_compile_options(fields_);
    if (auto reason = backend_->why_not(graph, options)) return {.status = "unsupported", .reason = *reason};

    Built timed = build(graph, options);
    Json& details = outcome.details;
    details["kernels"] = to_json(timed.executable->kernels());
    details["backend"] = to_json(backend_->facts());
    details["memory_bytes"] = timed.executable->bytes();
    details["parameter_bytes"] = timed.parameters->elements() * static_cast<Index>(sizeof(float));
    if (depth == Depth::build) return outcome;

    if (!check_before(graph, options, timed, outcome)) return outcome;
    timed_ = std::move(timed);
    if (depth == Depth::check) return outcome;

    const DType type = options.math == Math::bf16 ? DType::bf16 : parse_dtype(fields_.at("dtype").get<std::string>());
    timer_ = std::make_unique<StepTimer>(*backend_, *timed_.executable, [this] { step(nullptr); });
    timer_->describe_bound(cost(graph), {}, type, options.math, options.device, fields_.at("cache") == "cold", details);
    timer_->warm_up(details);
    add_breakdown(details);
    return outcome;
  }

  SliceResult run(const Slice& slice) override { return timer_->run(slice, meters_); }

  Outcome finish() override {
    Outcome outcome;
    const NetCheck check = check_network(expected_, *timed_.executable);
    outcome.details["check"] = to_json(check);
    if (!check.passed) return {"failed", "after the measurement: " + check.reason, outcome.details};
    if (timer_ && timer_->on_device()) outcome.details["device_memory_bytes"] = timed_.executable->bytes();
    meters_.report(outcome.details);
    return outcome;
  }

  Tensor fetch(const std::string& tensor) override {
    const bool gradient = tensor.starts_with("gradient ");
    return timed_.executable->read(gradient ? Executable::Role::gradient : Executable::Role::value,
                                   gradient ? tensor.substr(9) : tensor);
  }

 private:
  struct Built {
    std::unique_ptr<ParameterSet> parameters;
    std::unique_ptr<Executable> executable;
  };

  Built build(const Graph& graph, const CompileOptions& options) {
    Built built;
    built.parameters = std::make_unique<ParameterSet>(compute_type(), backend_->memory(options.device));
    built.executable = backend_->compile(graph, *built.parameters, options);
    return built;
  }
  DType compute_type() const {
    const DType type = parse_dtype(fields_.at("dtype").get<std::string>());
    return type == DType::bf16 || type == DType::f16 ? type : DType::f32;
  }

  void step(Observer* observer) {
    if (pass_ != NetPass::backward) timed_.executable->forward({.observer = observer});
    if (pass_ != NetPass::forward) timed_.executable->backward({.observer = observer});
  }

  static void run_once(Executable& executable, Backend& backend, Mode mode) {
    executable.forward({});
    if (mode == Mode::training) executable.backward({});
    backend.synchronize();
  }

  // Samples of a batch do not depend on each other where the network is used, so the oracle looks at the first few of
  // them. Where it learns they do (batch normalisation), so the same network with a small batch is compiled as well,
  // and the large one must give at the end what it gave at the beginning.
  bool check_before(const Graph& graph, const CompileOptions& options, Built& timed, Outcome& outcome) {
    const Index few = options.mode == Mode::training ? 4 : 2;  // statistics of two samples are hardly any
    const auto seed = fields_.at("seed").get<uint64_t>();
    const bool smaller = fields_.at("batch").get<Index>() > few;
    const Graph small = smaller ? network_of(fields_, few) : graph;
    expected_ = make_net_inputs(small, options.mode, seed);
    add_expected(small, options.mode, options.math, seed, expected_);

    write_values(smaller ? make_net_inputs(graph, options.mode, seed) : expected_, *timed.executable);
    run_once(*timed.executable, options.mode);
    const bool apart = smaller && options.mode == Mode::training;
    Built little;
    if (apart) {
      little = build(small, options);
      write_values(expected_, *little.executable);
      run_once(*little.executable, options.mode);
    }
    const NetCheck check = check_network(expected_, apart ? *little.executable : *timed.executable);
    outcome.details["check"] = to_json(check);
    if (!check.passed) {
      outcome.status = "failed";
      outcome.reason = check.reason;
      return false;
    }
    if (check.powerless) {
      outcome.status = "mistrusted";
      outcome.reason = "the check had no power: rounding alone may move every result by a tenth of itself";
    }
    if (apart) expected_ = remembered(expected_, *timed.executable);
    return true;
  }

  void run_once(Executable& executable, Mode mode) {
    executable.forward({});
    if (mode == Mode::training) executable.backward({});
    backend_->synchronize();
  }

  Cost cost(const Graph& graph) const {
    Cost sum;
    const Specs specs = infer_specs(graph);
    for (const Node& node : graph.nodes) {
      const auto op = make_operator(node);
      const auto in = specs_of(specs, node.inputs);
      for (const Pass pass : {Pass::forward, Pass::backward}) {
        if (pass == Pass::forward ? pass_ == NetPass::backward : pass_ == NetPass::forward) continue;
        sum.flops += op->cost(in, pass).flops;
      }
    }
    // A network must at least read its parameters and inputs; whatever is between can stay in caches.
    for (const GraphInput& input : graph.inputs)
      sum.bytes += input.spec.bytes() * (pass_ != NetPass::forward && input.parameter ? 2 : 1);
    for (const std::string& name : graph.outputs) sum.bytes += specs.at(name).bytes();
    return sum;
  }

  // A few observed steps beside as many that are not: what is not inside nodes is the framework's own.
  void add_breakdown(Json& details) {
    constexpr int steps = 3;
    Breakdown breakdown;
    std::vector<double> seconds;
    step(nullptr);
    for (int i = 0; i < steps; ++i) {
      const double begin = now_seconds();
      step(&breakdown);
      backend_->synchronize();
      seconds.push_back(now_seconds() - begin);
    }
    if (breakdown.nodes() == 0) return;  // it does not tell
    double whole = 0;
    for (const double one : seconds) whole += one;
    Json by_operator = Json::object();
    for (const auto& [key, times] : breakdown.by_operator()) {
      double sum = 0;
      for (const double one : times) sum += one;
      by_operator[key.first + (key.second == Pass::forward ? " forward" : " backward")] = sum / steps;
    }
    details["breakdown"] = {{"step_s", whole / steps},
                            {"nodes_s", breakdown.nodes() / steps},
                            {"residual_share", 1 - breakdown.nodes() / whole},
                            {"by_operator_s", by_operator}};
  }

  Json fields_;
  NetPass pass_;
  std::unique_ptr<Backend> backend_;
  Built timed_;
  NetProblem expected_;
  std::unique_ptr<StepTimer> timer_;
  Meters meters_;
};

}  // namespace

std::unique_ptr<Session> open_net_session(const Json& fields) { return std::make_unique<NetSession>(fields); }

}  // namespace d5
