// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/net_session.hpp"

#include <algorithm>
#include <map>

#include "d5/bench/net_run.hpp"
#include "d5/bench/step_timer.hpp"
#include "d5/measure/clock.hpp"

namespace d5 {
namespace {

// Time by operator, and what is left of the step: the framework's own. Between nodes it only adds to a number, because
// what it does there counts as the framework's.
class Breakdown final : public StepObserver {
 public:
  void step_begin() override {
    at_ = 0;
    step_begin_ = now_seconds();
  }
  void step_end() override {
    whole_ += now_seconds() - step_begin_;
    ++steps_;
  }
  void node_begin(const Node&, Pass) override { begin_ = now_seconds(); }
  void node_end(const Node& node, Pass pass) override {
    const double seconds = now_seconds() - begin_;
    // Every step runs the same nodes in the same order.
    const bool again = at_ < spans_.size() && spans_[at_].pass == pass && spans_[at_].op == node.op;
    Span& span = again ? spans_[at_] : spans_.emplace_back(Span{node.op, pass, 0});
    span.seconds += seconds;
    nodes_ += seconds;
    ++at_;
  }

  // Nothing where the backend does not tell of its operators.
  void report(Json& details) const {
    if (nodes_ == 0) return;
    std::map<std::string, double> by_operator;
    for (const auto& [op, pass, seconds] : spans_)
      by_operator[op + (pass == Pass::forward ? " forward" : " backward")] += seconds / steps_;
    details["breakdown"] = {{"step_s", whole_ / steps_},
                            {"nodes_s", nodes_ / steps_},
                            {"residual_share", 1 - nodes_ / whole_},
                            {"by_operator_s", by_operator}};
  }

 private:
  struct Span {
    std::string op;
    Pass pass;
    double seconds;
  };
  int steps_ = 0;
  size_t at_ = 0;
  double step_begin_ = 0, begin_ = 0, whole_ = 0, nodes_ = 0;
  std::vector<Span> spans_;
};

class NetSession final : public Session {
 public:
  explicit NetSession(Json fields) : net_(std::move(fields)) { want({}); }

  // The energy of a step is always looked at: where there is a counter, reading it costs nothing.
  void want(const MetricRequest& request) override {
    MetricRequest all = request;
    const std::string energy = net_.options().device == "cpu" ? "energy" : "device_energy";
    if (std::ranges::find(all.names, energy) == all.names.end()) all.names.push_back(energy);
    meters_ = Meters(all);
  }

  Outcome prepare(Depth depth) override {
    if (depth == Depth::list) return {};
    Outcome outcome = net_.open(depth);
    if (depth == Depth::build || (outcome.status != "passed" && outcome.status != "mistrusted")) return outcome;
    Json& details = outcome.details;
    if (depth == Depth::measure) {
      const CompileOptions& options = net_.options();
      const Json& fields = net_.fields();
      const DType type = options.math == Math::bf16 ? DType::bf16 : parse_dtype(fields.at("dtype").get<std::string>());
      timer_ = std::make_unique<StepTimer>(net_.backend(), net_.executable(), [this] { net_.step(); });
      timer_->describe_bound(net_.cost(), {}, type, options.math, options.device, fields.at("cache") == "cold",
                             details);
      timer_->warm_up(details);
    }
    if (!net_.elsewhere()) {
      if (depth == Depth::measure) {
        Breakdown breakdown;
        net_.show(breakdown);
        breakdown.report(details);
      }
      for (StepObserver* observer : meters_.observers()) net_.show(*observer);
    }
    meters_.report(details);
    return outcome;
  }

  SliceResult run(const Slice& slice) override { return timer_->run(slice, meters_); }

  Outcome finish() override {
    Outcome outcome = net_.check_again();
    if (outcome.status != "passed") return outcome;
    if (timer_ && timer_->on_device()) outcome.details["device_memory_bytes"] = net_.executable().bytes();
    meters_.report(outcome.details);
    return outcome;
  }

  Tensor fetch(const std::string& tensor) override {
    const bool gradient = tensor.starts_with("gradient ");
    return net_.executable().read(gradient ? Executable::Role::gradient : Executable::Role::value,
                                  gradient ? tensor.substr(9) : tensor);
  }

 private:
  NetRun net_;
  std::unique_ptr<StepTimer> timer_;
  Meters meters_;
};

}  // namespace

std::unique_ptr<Session> open_net_session(const Json& fields) { return std::make_unique<NetSession>(fields); }

}  // namespace d5
