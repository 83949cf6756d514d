// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/op_session.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "d5/bench/fields.hpp"
#include "d5/bench/op_case.hpp"
#include "d5/bench/problem.hpp"
#include "d5/bench/step_timer.hpp"
#include "d5/bench/trust.hpp"
#include "d5/core/guard.hpp"
#include "d5/core/origin.hpp"
#include "d5/core/parallel.hpp"

namespace d5 {
namespace {

Json to_json(const CheckResult& check) {
  return {{"linf", check.linf},
          {"l1", check.l1},
          {"l2", check.l2},
          {"linf_relative", check.linf_relative},
          {"worst_share_of_tolerance", check.worst_share},
          {"compared", check.compared},
          {"elements", check.elements}};
}

Json to_json(const Facts& facts) {
  Json json = Json::object();
  for (const auto& [name, value] : facts) json[name] = value;
  return json;
}

bool has_gradient(const OperatorCase& one) {
  return std::ranges::any_of(one.inputs, [](const OperatorInput& input) {
    return input.spec.present && input.differentiable && is_float(input.spec.dtype);
  });
}

Cost cost_of(const std::string& op, const OperatorCase& one, Pass pass) {
  const Cost cost = registered<operators>(op).make(one.attributes)->cost(one.specs(), pass);
  if (std::isfinite(cost.flops) && cost.flops >= 0 && std::isfinite(cost.bytes) && cost.bytes >= 0) return cost;
  throw Error("[{}] cost gives {} operations and {} bytes; finite numbers of 0 or more are wanted", op, cost.flops,
              cost.bytes);
}

class OpSession final : public Session {
 public:
  explicit OpSession(Json fields) : fields_(std::move(fields)) {}

  void want(const MetricRequest& request) override { meters_ = Meters(request); }

  Outcome prepare(Depth depth) override {
    Outcome outcome;
    if (depth == Depth::list) return outcome;
    const std::string op = fields_.at("operator"), backend = fields_.at("backend");
    set_threads(fields_.at("threads").get<int>());
    if (auto off = open_backend_of(fields_, backend_)) return *off;
    const OperatorCase one = describe(fields_);
    const Graph graph = single_node_graph(op, one);
    for (const auto& [name, spec] : infer_specs(graph))
      if (spec.dtype == DType::string)
        return {.status = "unsupported", .reason = fmt::format("{} has strings; level 0 measures numbers", op)};
    const CompileOptions options = compile_options(fields_);
    pass_of_ = pass_of(fields_);
    if (options.mode == Mode::training && !(has_gradient(one) && registered<operators>(op).has_backward))
      return {.status = "unsupported", .reason = fmt::format("{} has no gradient", op)};
    if (auto reason = backend_->why_not(graph, options)) return {.status = "unsupported", .reason = *reason};
    Memory& memory = backend_->memory(options.device);
    parameters_ = std::make_unique<ParameterSet>(DType::f32, memory.is_host() ? guarded_memory() : memory);
    executable_ = backend_->compile(graph, *parameters_, options);
    outcome.details["kernels"] = to_json(executable_->kernels());
    if (const std::string why = executable_->narrow_arithmetic(pass_of(fields_)); !why.empty())
      outcome.details["narrow_arithmetic"] = why;
    outcome.details["backend"] = to_json(backend_->facts());
    outcome.details["memory_bytes"] =
        executable_->bytes() + static_cast<size_t>(parameters_->elements()) * sizeof(float) * 2;
    if (depth == Depth::build) return outcome;

    const Cost cost = cost_of(op, one, pass_of_);
    const bool passed = check_before(op, one, graph, outcome);
    if (times_itself()) {
      outcome.details["kernels"] = to_json(executable_->kernels());  // known once they have run
      outcome.details["worker"] = times_itself()->details();
    }
    if (!passed) return outcome;
    show_results();
    meters_.report(outcome.details);
    if (depth == Depth::check) return outcome;

    const DType type = options.math == Math::bf16 ? DType::bf16 : parse_dtype(fields_.at("dtype").get<std::string>());
    timer_ = std::make_unique<StepTimer>(*backend_, *executable_, [this] { step(); });
    timer_->describe_bound(cost, written_bytes(op, one), type, options.math, options.device,
                           fields_.at("cache") == "cold", outcome.details);
    timer_->warm_up(outcome.details);
    // What is checked at the end must have been computed while it was timed. A worker that times itself keeps its
    // results where we cannot write.
    if (!times_itself()) poison_results(*problem_, *executable_);
    backend_->synchronize();
    return outcome;
  }

  SliceResult run(const Slice& slice) override { return timer_->run(slice, meters_); }

  Outcome finish() override {
    Outcome outcome;
    const CheckResult check = checked(*problem_);
    outcome.details["check"] = to_json(check);
    if (!check.passed) return {"failed", "after the measurement: " + check.reason, outcome.details};
    outcome.details["repeatable"] = same_bits();
    if (timer_ && timer_->on_device())
      outcome.details["device_memory_bytes"] = executable_->bytes();  // the most there was
    meters_.report(outcome.details);
    return outcome;
  }

  Tensor fetch(const std::string& tensor) override {
    const bool gradient = tensor.starts_with("gradient ");
    return executable_->read(gradient ? Executable::Role::gradient : Executable::Role::value,
                             gradient ? tensor.substr(9) : tensor);
  }

 private:
  TimesItself* times_itself() { return dynamic_cast<TimesItself*>(executable_.get()); }

  void step() {
    if (pass_of_ == Pass::forward)
      executable_->forward({});
    else
      executable_->backward({});
  }

  // One run of the problem from poisoned results; forward comes first where gradients are wanted.
  CheckResult run_once(const Problem& problem) {
    write_inputs(problem, *executable_);
    poison_results(problem, *executable_);
    run_again();
    return checked(problem);
  }

  CheckResult checked(const Problem& problem) {
    CheckResult check = check_results(problem, *executable_);
    if (const std::string overrun = executable_->overrun(); !overrun.empty()) {
      check.passed = false;
      check.reason = overrun;
    }
    return check;
  }

  // Forward writes the outputs that the case asks for, backward the gradients of the inputs.
  double written_bytes(const std::string& op, const OperatorCase& one) const {
    double bytes = 0;
    if (pass_of_ == Pass::forward) {
      const auto outputs = registered<operators>(op).make(one.attributes)->infer(one.specs());
      for (size_t i = 0; i < std::min(one.outputs, outputs.size()); ++i)
        if (outputs[i].present) bytes += outputs[i].bytes();
      return bytes;
    }
    for (const OperatorInput& input : one.inputs)
      if (input.spec.present && input.differentiable && is_float(input.spec.dtype)) bytes += input.spec.bytes();
    return bytes;
  }

  // The exact pass on small integers first, then the random inputs that will be timed.
  bool check_before(const std::string& op, const OperatorCase& one, const Graph& graph, Outcome& outcome) {
    ProblemOptions options{.pass = pass_of_,
                           .inputs = parse_input_values(fields_.at("inputs").get<std::string>()),
                           .math = compile_options(fields_).math,
                           .narrow = !executable_->narrow_arithmetic(pass_of_).empty(),
                           .seed = fields_.at("seed").get<uint64_t>()};
    problem_ = std::make_unique<Problem>(make_problem(op, one, options));
    if (!times_itself() && (is_users<operators>(op) || fields_.at("kernel") != "builtin"))
      if (const std::string fault = stray_writes(graph); !fault.empty()) {
        outcome.status = "failed";
        outcome.reason = fault;
        return false;
      }
    if (exact_on_integers(op, one, pass_of_) && options.math != Math::winograd) {
      ProblemOptions integers = options;
      integers.inputs = InputValues::integers;
      const CheckResult check = run_once(make_problem(op, one, integers));
      outcome.details["integer_check"] = to_json(check);
      if (!check.passed) {
        outcome.status = "failed";
        outcome.reason = "exact pass on small integers: " + check.reason;
        return false;
      }
    }
    const CheckResult check = run_once(*problem_);
    outcome.details["check"] = to_json(check);
    if (!check.passed) {
      outcome.status = "failed";
      outcome.reason = check.reason;
      return false;
    }
    const Trust trust = trust_in_oracle(op, one, *problem_, executable_->kernels(), options.seed);
    outcome.status = trust.status;
    outcome.reason = trust.reason;
    if (!trust.warning.empty()) outcome.details["warnings"] = {trust.warning};
    if (trust.status == "failed") return false;
    if (check.powerless) {
      outcome.status = "mistrusted";
      outcome.reason = "the check had no power: every expected value is zero";
    }
    for (const Expected& e : problem_->expected) first_results_.push_back(executable_->read(e.role, e.value));
    return true;
  }

  // Code of a user runs once where far more than usual lies around every buffer: what it writes there, or to what it
  // may only read. It is timed as all others are, elsewhere.
  std::string stray_writes(const Graph& graph) {
    const CompileOptions options = compile_options(fields_);
    Memory& memory = backend_->memory(options.device);
    ParameterSet parameters(DType::f32, memory.is_host() ? widely_guarded_memory() : memory);
    std::unique_ptr<Executable> executable;
    {
      const WideGuards wide;
      executable = backend_->compile(graph, parameters, options);
    }
    write_inputs(*problem_, *executable);
    poison_results(*problem_, *executable);
    executable->forward({});
    if (pass_of_ == Pass::backward) executable->backward({});
    backend_->synchronize();
    if (const std::string overrun = executable->overrun(); !overrun.empty()) return overrun;
    for (const auto& [role, tensors] : {std::pair{Executable::Role::value, &problem_->inputs},
                                        {Executable::Role::gradient, &problem_->output_gradients}})
      for (const auto& [name, tensor] : *tensors)
        if (std::memcmp(executable->read(role, name).data(), tensor.data(), tensor.bytes()) != 0)
          return fmt::format("{}{} was written to: a kernel may only read it",
                             role == Executable::Role::gradient ? "gradient of " : "", name);
    return {};
  }

  // The results that were checked, and those of further runs where a metric wants them.
  void show_results() {
    for (int run = 0; run <= meters_.repeats(); ++run) {
      if (run > 0) run_again();
      for (size_t i = 0; i < problem_->expected.size(); ++i) {
        const Expected& e = problem_->expected[i];
        const Tensor actual = run == 0 ? first_results_[i] : executable_->read(e.role, e.value);
        meters_.see({result_name(e), actual, e.at, e.values, e.tolerance}, run);
      }
    }
  }

  void run_again() {
    executable_->forward({});
    if (pass_of_ == Pass::backward) executable_->backward({});
    backend_->synchronize();
  }

  bool same_bits() {
    for (size_t i = 0; i < problem_->expected.size(); ++i) {
      const Expected& e = problem_->expected[i];
      const Tensor now = executable_->read(e.role, e.value);
      if (std::memcmp(now.data(), first_results_[i].data(), now.bytes()) != 0) return false;
    }
    return true;
  }

  Json fields_;
  Pass pass_of_ = Pass::forward;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<ParameterSet> parameters_;
  std::unique_ptr<Executable> executable_;
  std::unique_ptr<Problem> problem_;
  std::vector<Tensor> first_results_;
  std::unique_ptr<StepTimer> timer_;
  Meters meters_;
};

}  // namespace

std::unique_ptr<Session> open_op_session(const Json& fields) { return std::make_unique<OpSession>(fields); }

}  // namespace d5
