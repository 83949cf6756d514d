// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/op_session.hpp"

#include <algorithm>
#include <cstring>

#include "d5/bench/op_case.hpp"
#include "d5/bench/op_meters.hpp"
#include "d5/bench/problem.hpp"
#include "d5/bench/times_itself.hpp"
#include "d5/bench/trust.hpp"
#include "d5/core/guard.hpp"
#include "d5/core/parallel.hpp"
#include "d5/measure/cache.hpp"
#include "d5/measure/clock.hpp"
#include "d5/measure/quantile.hpp"
#include "d5/measure/roofline.hpp"

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

class OpSession final : public Session {
 public:
  explicit OpSession(Json fields) : fields_(std::move(fields)) {}

  void want(const MetricRequest& request) override { meters_ = OpMeters(request); }

  Outcome prepare(Depth depth) override {
    Outcome outcome;
    if (depth == Depth::list) return outcome;
    const std::string op = fields_.at("operator"), backend = fields_.at("backend");
    set_threads(fields_.at("threads").get<int>());
    try {
      backend_ = open_backend(backend);
    } catch (const UsageError&) {
      throw;
    } catch (const Error& error) {
      return {.status = "unsupported", .reason = error.what()};
    }
    const OperatorCase one = describe(fields_);
    const Graph graph = single_node_graph(op, one);
    const CompileOptions options = compile_options(fields_);
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

    const bool passed = check_before(op, one, outcome);
    if (times_itself()) {
      outcome.details["kernels"] = to_json(executable_->kernels());  // known once they have run
      outcome.details["worker"] = times_itself()->details();
    }
    if (!passed) return outcome;
    show_results();
    meters_.report(outcome.details);
    if (depth == Depth::check) return outcome;

    describe_bound(op, one, outcome);
    warm_up(outcome);
    return outcome;
  }

  SliceResult run(const Slice& slice) override {
    if (!flusher_) meters_.begin();  // what flushing costs is not the case's
    SliceResult result = time_steps(slice);
    if (!flusher_) meters_.end(slice.rewarm + slice.samples * slice.batch);
    result.probe = {{"peak_flops", peak_flops()}, {"bandwidth", bandwidth()}};
    return result;
  }

  Outcome finish() override {
    Outcome outcome;
    const CheckResult check = checked(*problem_);
    outcome.details["check"] = to_json(check);
    if (!check.passed) return {"failed", "after the measurement: " + check.reason, outcome.details};
    outcome.details["repeatable"] = same_bits();
    if (device_probe_) outcome.details["device_memory_bytes"] = executable_->bytes();  // the most there was
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

  SliceResult time_steps(const Slice& slice) {
    if (times_itself()) return times_itself()->time_steps(slice, flusher_ ? flusher_->bytes() : 0);
    SliceResult result;
    result.seconds.reserve(static_cast<size_t>(slice.samples));
    result.start.reserve(static_cast<size_t>(slice.samples));
    for (int64_t i = 0; i < slice.rewarm; ++i) step();
    backend_->synchronize();
    for (int64_t sample = 0; sample < slice.samples; ++sample) {
      flush();
      result.start.push_back(now_seconds());
      const Mark begin = backend_->mark();
      for (int64_t i = 0; i < slice.batch; ++i) step();
      const Mark end = backend_->mark();
      result.seconds.push_back(backend_->seconds(begin, end) / static_cast<double>(slice.batch));
    }
    return result;
  }

  void step() {
    if (pass_of_ == Pass::forward)
      executable_->forward({});
    else
      executable_->backward({});
  }

  void flush() {
    if (flusher_) flusher_->flush();
    if (flushes_device_) device_probe_->flush();
  }
  // 0: nobody here can tell (a worker in another language, on a device).
  double peak_flops() {
    return device_probe_ ? device_probe_->peak_flops(bound_type_, math_) : probe_ ? probe_->peak_flops(bound_type_) : 0;
  }
  double bandwidth() {
    return device_probe_ ? device_probe_->bandwidth(working_set_) : probe_ ? probe_->bandwidth(working_set_) : 0;
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

  // The exact pass on small integers first, then the random inputs that will be timed.
  bool check_before(const std::string& op, const OperatorCase& one, Outcome& outcome) {
    pass_of_ = pass_of(fields_);
    ProblemOptions options{.pass = pass_of_,
                           .inputs = parse_input_values(fields_.at("inputs").get<std::string>()),
                           .math = compile_options(fields_).math,
                           .narrow = !executable_->narrow_arithmetic(pass_of_).empty(),
                           .seed = fields_.at("seed").get<uint64_t>()};
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
    problem_ = std::make_unique<Problem>(make_problem(op, one, options));
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
    if (trust.status == "failed") return false;
    if (check.powerless) {
      outcome.status = "mistrusted";
      outcome.reason = "the check had no power: every expected value is zero";
    }
    for (const Expected& e : problem_->expected) first_results_.push_back(executable_->read(e.role, e.value));
    return true;
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

  void describe_bound(const std::string& op, const OperatorCase& one, Outcome& outcome) {
    const auto specs = one.specs();
    const Cost cost = registered<operators>(op).make(one.attributes)->cost(specs, pass_of_);
    math_ = compile_options(fields_).math;
    bound_type_ = math_ == Math::bf16 ? DType::bf16 : parse_dtype(fields_.at("dtype").get<std::string>());
    working_set_ = cost.bytes;
    device_probe_ = backend_->probe(fields_.at("device").get<std::string>());
    if (!device_probe_ && fields_.at("device") == "cpu") probe_ = std::make_unique<Probe>(threads());
    if (fields_.at("cache") == "cold") {
      if (device_probe_)
        flushes_device_ = true;
      else
        flusher_ = std::make_unique<CacheFlusher>();
      working_set_ =
          std::max(working_set_, device_probe_ ? device_probe_->cache_bytes() : static_cast<double>(flusher_->bytes()));
    }
    peak_flops();  // the first call makes buffers
    bandwidth();
    outcome.details["cost"] = {{"flops", cost.flops}, {"bytes", cost.bytes}, {"working_set_bytes", working_set_}};
  }

  // At least three iterations and a tenth of a second; the later half tells how long one takes.
  void warm_up(Outcome& outcome) {
    std::vector<double> seconds;
    const double begin = now_seconds();
    while ((seconds.size() < 3 || now_seconds() - begin < 0.1) && seconds.size() < 1000)
      seconds.push_back(time_steps({.samples = 1, .batch = 1, .rewarm = 0}).seconds.front());
    outcome.details["warmup_s"] = seconds;
    outcome.details["seconds_per_iteration"] =
        median({seconds.begin() + static_cast<long>(seconds.size() / 2), seconds.end()});
  }

  Json fields_;
  Pass pass_of_ = Pass::forward;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<ParameterSet> parameters_;
  std::unique_ptr<Executable> executable_;
  std::unique_ptr<Problem> problem_;
  std::vector<Tensor> first_results_;
  std::unique_ptr<CacheFlusher> flusher_;
  std::unique_ptr<Probe> probe_;               // of the host
  std::unique_ptr<DeviceProbe> device_probe_;  // of the device, where the case runs on one
  bool flushes_device_ = false;
  OpMeters meters_;
  DType bound_type_ = DType::f32;
  Math math_ = Math::strict;
  double working_set_ = 0;
};

}  // namespace

std::unique_ptr<Session> open_op_session(const Json& fields) { return std::make_unique<OpSession>(fields); }

}  // namespace d5
