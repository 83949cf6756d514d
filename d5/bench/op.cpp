// SPDX-License-Identifier: Apache-2.0
// Level 0: one operator. why_not -> compile -> check against the oracle -> warm up -> measure -> check again.
#include <algorithm>
#include <cmath>

#include "d5/backends/backend.hpp"
#include "d5/bench/problem.hpp"
#include "d5/bench/session.hpp"
#include "d5/core/parallel.hpp"
#include "d5/measure/cache.hpp"
#include "d5/measure/clock.hpp"
#include "d5/measure/quantile.hpp"
#include "d5/measure/roofline.hpp"
#include "d5/measure/summary.hpp"

namespace d5 {
namespace {

// The fields every operator case has, with their defaults and what is legal.
struct Field {
  std::string name;
  Json otherwise;
  std::vector<std::string> legal;  // empty: anything of the default's type
};
const std::vector<Field>& common_fields() {
  static const std::vector<Field> fields{
      {"backend", "reference", {}},
      {"dtype", "f32", dtype_names()},
      {"pass", "forward", {"forward", "backward"}},
      {"threads", 1, {}},
      {"device", "cpu", {}},
      {"math", "strict", {"strict", "tf32", "bf16", "winograd"}},
      {"layout", "fast", {"fast", "plain"}},
      {"reorders", "untimed", {"untimed", "timed"}},
      {"cache", "hot", {"hot", "cold"}},
      {"inputs", "uniform", {"uniform", "normal", "integers", "nan"}},
      {"deterministic", false, {}},
      {"kernel", "builtin", {}},
      {"seed", 1, {}},
  };
  return fields;
}

void check_field(const Field& field, const Json& value) {
  if (value.type() != field.otherwise.type() && !(value.is_number_integer() && field.otherwise.is_number_integer()))
    throw FieldError(field.name, fmt::format("[op] {} is {}; a value like {} is wanted", field.name, value.dump(),
                                             field.otherwise.dump()));
  if (field.legal.empty()) return;
  try {
    if (std::ranges::find(field.legal, value.get<std::string>()) == field.legal.end())
      fail_unknown("[op]", field.name, value.get<std::string>(), field.legal);
  } catch (const UsageError& error) {
    throw FieldError(field.name, error.what());
  }
}

Attributes operator_values(const Json& fields) {
  Json own = Json::object();
  for (const Parameter& parameter : registered<operators>(fields.at("operator").get<std::string>()).parameters)
    if (fields.contains(parameter.name)) own[parameter.name] = fields[parameter.name];
  return attributes_from_json(own);
}

OperatorCase describe(const Json& fields) {
  return registered<operators>(fields.at("operator").get<std::string>())
      .describe(operator_values(fields), parse_dtype(fields.at("dtype").get<std::string>()));
}

Pass pass_of(const Json& fields) { return fields.at("pass") == "forward" ? Pass::forward : Pass::backward; }

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

class OpSession final : public Session {
 public:
  explicit OpSession(Json fields) : fields_(std::move(fields)) {}

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
    const CompileOptions options = compile_options();
    if (auto reason = backend_->why_not(graph, options)) return {.status = "unsupported", .reason = *reason};
    executable_ = backend_->compile(graph, parameters_, options);
    outcome.details["kernels"] = to_json(executable_->kernels());
    outcome.details["backend"] = to_json(backend_->facts());
    outcome.details["memory_bytes"] =
        executable_->bytes() + static_cast<size_t>(parameters_.elements()) * sizeof(float) * 2;
    if (depth == Depth::build) return outcome;

    if (!check_before(op, one, outcome)) return outcome;
    if (depth == Depth::check) return outcome;

    describe_bound(op, one, outcome);
    warm_up(outcome);
    return outcome;
  }

  SliceResult run(const Slice& slice) override {
    SliceResult result;
    result.seconds.reserve(static_cast<size_t>(slice.samples));
    result.start.reserve(static_cast<size_t>(slice.samples));
    for (int64_t i = 0; i < slice.rewarm; ++i) step();
    backend_->synchronize();
    for (int64_t sample = 0; sample < slice.samples; ++sample) {
      if (flusher_) flusher_->flush();
      result.start.push_back(now_seconds());
      const Mark begin = backend_->mark();
      for (int64_t i = 0; i < slice.batch; ++i) step();
      const Mark end = backend_->mark();
      result.seconds.push_back(backend_->seconds(begin, end) / static_cast<double>(slice.batch));
    }
    result.probe = {{"peak_flops", probe_->peak_flops(bound_type_)}, {"bandwidth", probe_->bandwidth(working_set_)}};
    return result;
  }

  Outcome finish() override {
    Outcome outcome;
    const CheckResult check = check_results(*problem_, *executable_);
    outcome.details["check"] = to_json(check);
    if (!check.passed) return {"failed", "after the measurement: " + check.reason, outcome.details};
    outcome.details["repeatable"] = same_bits();
    return outcome;
  }

  Tensor fetch(const std::string& tensor) override {
    const bool gradient = tensor.starts_with("gradient ");
    return executable_->read(gradient ? Executable::Role::gradient : Executable::Role::value,
                             gradient ? tensor.substr(9) : tensor);
  }

 private:
  CompileOptions compile_options() const {
    CompileOptions options;
    options.mode = pass_of(fields_) == Pass::backward ? Mode::training : Mode::inference;
    options.input_gradients = pass_of(fields_) == Pass::backward;
    options.math = parse_math(fields_.at("math").get<std::string>());
    options.layout = parse_layout(fields_.at("layout").get<std::string>());
    options.time_reorders = fields_.at("reorders") == "timed";
    options.deterministic = fields_.at("deterministic");
    options.kernel = fields_.at("kernel");
    options.device = fields_.at("device");
    return options;
  }

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
    executable_->forward({});
    if (problem.pass == Pass::backward) executable_->backward({});
    backend_->synchronize();
    return check_results(problem, *executable_);
  }

  // The exact pass on small integers first, then the random inputs that will be timed.
  bool check_before(const std::string& op, const OperatorCase& one, Outcome& outcome) {
    pass_of_ = pass_of(fields_);
    ProblemOptions options{.pass = pass_of_,
                           .inputs = parse_input_values(fields_.at("inputs").get<std::string>()),
                           .math = compile_options().math,
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
    if (check.powerless) {
      outcome.status = "mistrusted";
      outcome.reason = "the check had no power: every expected value is zero";
    }
    for (const Expected& e : problem_->expected) first_results_.push_back(executable_->read(e.role, e.value));
    return true;
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
    bound_type_ =
        compile_options().math == Math::bf16 ? DType::bf16 : parse_dtype(fields_.at("dtype").get<std::string>());
    working_set_ = cost.bytes;
    if (fields_.at("cache") == "cold") {
      flusher_ = std::make_unique<CacheFlusher>();
      working_set_ = std::max(working_set_, static_cast<double>(flusher_->bytes()));
    }
    probe_ = std::make_unique<Probe>(threads());
    probe_->peak_flops(bound_type_);  // the first call makes its buffers
    probe_->bandwidth(working_set_);
    outcome.details["cost"] = {{"flops", cost.flops}, {"bytes", cost.bytes}, {"working_set_bytes", working_set_}};
  }

  // At least three iterations and a tenth of a second; the later half tells how long one takes.
  void warm_up(Outcome& outcome) {
    std::vector<double> seconds;
    const double begin = now_seconds();
    while ((seconds.size() < 3 || now_seconds() - begin < 0.1) && seconds.size() < 1000) {
      if (flusher_) flusher_->flush();
      const Mark from = backend_->mark();
      step();
      const Mark to = backend_->mark();
      seconds.push_back(backend_->seconds(from, to));
    }
    outcome.details["warmup_s"] = seconds;
    outcome.details["seconds_per_iteration"] =
        median({seconds.begin() + static_cast<long>(seconds.size() / 2), seconds.end()});
  }

  Json fields_;
  Pass pass_of_ = Pass::forward;
  std::unique_ptr<Backend> backend_;
  ParameterSet parameters_;
  std::unique_ptr<Executable> executable_;
  std::unique_ptr<Problem> problem_;
  std::vector<Tensor> first_results_;
  std::unique_ptr<CacheFlusher> flusher_;
  std::unique_ptr<Probe> probe_;
  DType bound_type_ = DType::f32;
  double working_set_ = 0;
};

Metric time_metric(const Summary& summary) {
  Metric metric{.unit = "s", .median = summary.median, .n = summary.n, .n_eff = summary.n_eff};
  if (summary.ci95) metric.ci95 = {summary.ci95->low, summary.ci95->high};
  return metric;
}

// A rate through its times: the median of work / t, with the interval turned around.
Metric rate_metric(const Metric& time, double work, const std::string& unit) {
  Metric metric = time;
  metric.unit = unit;
  metric.median = work / time.median;
  if (time.ci95) metric.ci95 = {work / time.ci95->second, work / time.ci95->first};
  return metric;
}

// The bound is what the machine gave in the same slice; the share is the median over slices.
void add_bound(const CaseResult& result, double flops, double bytes, Record& record) {
  std::vector<double> bounds, shares;
  size_t begin = 0, slice = 0;
  const Samples& s = result.samples;
  while (begin < s.time_s.size() && slice < result.probes.size()) {
    size_t end = begin;
    while (end < s.time_s.size() && s.launch[end] == s.launch[begin] && s.round[end] == s.round[begin]) ++end;
    const double peak = result.probes[slice].value("peak_flops", 0.0),
                 bandwidth = result.probes[slice].value("bandwidth", 0.0);
    const double bound = std::max(peak > 0 ? flops / peak : 0.0, bandwidth > 0 ? bytes / bandwidth : 0.0);
    bounds.push_back(bound);
    shares.push_back(bound /
                     median({s.time_s.begin() + static_cast<long>(begin), s.time_s.begin() + static_cast<long>(end)}));
    begin = end;
    ++slice;
  }
  if (bounds.empty()) return;
  record.bound = Bound{"roofline", median(bounds), "s", median(shares)};
  if (record.bound->share > 1.05)
    record.warnings.push_back(
        fmt::format("{:.0f} % of the roofline: the probe saw less than this case attained", 100 * record.bound->share));
  // A library that does not know the processor, or that has no kernel for a layout, computes slowly without a word.
  constexpr double far_below = 0.1, long_enough_s = 1e-4;
  if (record.bound->share < far_below && record.bound->value / record.bound->share > long_enough_s &&
      record.fields.at("backend") != "reference")
    record.warnings.push_back(fmt::format("far below the roofline ({:.1f} %): the kernel is {}",
                                          100 * record.bound->share,
                                          record.details.value("kernels", Json::object()).dump()));
}

class OpBench final : public Bench {
 public:
  Json complete(const Json& fields) const override {
    if (!fields.contains("operator"))
      throw FieldError("operator", "[op] no operator is named; legal: see 'd5 list operators'");
    Json result = {{"kind", "op"}, {"operator", fields["operator"]}};
    const std::string op = fields["operator"].get<std::string>();
    const OperatorEntry* entry = find_registered<operators>(op);
    if (!entry) try {
        registered<operators>(op);
      } catch (const UsageError& error) {
        throw FieldError("operator", error.what());
      }

    std::vector<std::string> legal{"kind", "operator"};
    for (const Field& field : common_fields()) legal.push_back(field.name);
    for (const Parameter& parameter : entry->parameters) legal.push_back(parameter.name);
    for (const auto& [name, value] : fields.items())
      if (std::ranges::find(legal, name) == legal.end()) try {
          fail_unknown(fmt::format("[{}]", op), "field", name, legal);
        } catch (const UsageError& error) {
          throw FieldError(name, error.what());
        }

    for (const Field& field : common_fields()) {
      result[field.name] = fields.value(field.name, field.otherwise);
      check_field(field, result[field.name]);
    }
    check_backend(result["backend"]);
    if (result["threads"].get<int64_t>() < 1 || result["threads"].get<int64_t>() > 4096)
      throw FieldError("threads", fmt::format("[op] threads is {}; 1 to 4096 are legal", result["threads"].dump()));

    Json own = Json::object();
    for (const Parameter& parameter : entry->parameters)
      if (fields.contains(parameter.name)) own[parameter.name] = fields[parameter.name];
    for (const auto& [name, value] : own.items()) try {
        complete_values(op, *entry, attributes_from_json({{name, value}}));
      } catch (const UsageError& error) {
        throw FieldError(name, error.what());
      }
    const Json values = to_json(complete_values(op, *entry, attributes_from_json(own)));
    for (const Parameter& parameter : entry->parameters) result[parameter.name] = values.at(parameter.name);
    return result;
  }

  std::unique_ptr<Session> open(const Json& fields) const override { return std::make_unique<OpSession>(fields); }

  Record record(const CaseResult& result) const override {
    Record record{.kind = "op", .fields = result.fields, .status = result.status, .reason = result.reason};
    record.group = result.group;
    record.stopped = result.stopped;
    record.warnings = result.warnings;
    record.samples = result.samples;
    record.rerun = rerun(result.fields);
    if (!result.prepared.empty()) record.details = result.prepared.front();
    record.details.erase("warmup_s");
    if (!result.finished.empty()) record.details["after"] = result.finished.back();
    record.details["unremarkable"] = unremarkable_fields(result.fields);
    const bool has_speed =
        (result.status == "passed" || result.status == "mistrusted") && !result.samples.time_s.empty();
    if (has_speed) {
      const Summary summary = summarize(result.samples.time_s);
      const double flops = record.details["cost"]["flops"], bytes = record.details["cost"]["bytes"];
      const Metric time = time_metric(summary);
      record.metrics.emplace_back("time", time);
      if (flops > 0) record.metrics.emplace_back("gflops", rate_metric(time, flops * 1e-9, "GFLOP/s"));
      record.metrics.emplace_back("bandwidth", rate_metric(time, bytes * 1e-9, "GB/s"));
      record.warnings.insert(record.warnings.end(), summary.warnings.begin(), summary.warnings.end());
      add_bound(result, flops, bytes, record);
      for (const Quantile& q : summary.tails) {
        Json tail = {{"value", q.value}, {"ci95", nullptr}};
        if (q.interval) tail["ci95"] = {q.interval->low, q.interval->high};
        record.details["tails"][fmt::format("p{:g}", 100 * q.p)] = tail;
      }
    } else {
      record.samples = {};
    }
    if (record.details.contains("check")) {
      const Json& check = record.details["check"];
      for (const auto& [name, key] : {std::pair{"error_linf", "linf"}, {"error_l1", "l1"}, {"error_l2", "l2"}})
        record.metrics.emplace_back(name, Metric{.unit = "1", .median = check.at(key), .n = check.at("compared")});
    }
    return record;
  }

  std::string rerun(const Json& fields) const override {
    std::string command = "d5 op " + fields.at("operator").get<std::string>();
    const std::vector<std::string> defaults = default_fields(fields);
    for (const auto& [name, value] : fields.items()) {
      const bool is_default = std::ranges::find(defaults, name) != defaults.end();
      if (name == "kind" || name == "operator" || (is_default && name != "backend")) continue;
      std::string option = name, text = value.is_string() ? value.get<std::string>() : value.dump();
      std::ranges::replace(option, '_', '-');
      command += fmt::format(" --{} {}", option, text.empty() ? "''" : text);
    }
    return command;
  }

  std::vector<std::string> compared_fields() const override { return {"backend", "device", "kernel"}; }

 private:
  // Fields at their default that a table need not repeat. Sizes, arithmetic and layout are always shown.
  std::vector<std::string> unremarkable_fields(const Json& fields) const {
    std::vector<std::string> names;
    for (const std::string& name : default_fields(fields))
      if (std::ranges::any_of(common_fields(), [&](const Field& f) { return f.name == name; }) && name != "backend" &&
          name != "math" && name != "layout")
        names.push_back(name);
    return names;
  }

  // Names of the fields that nobody had to give.
  std::vector<std::string> default_fields(const Json& fields) const {
    const Json defaults = complete({{"operator", fields.at("operator")}});
    std::vector<std::string> names;
    for (const auto& [name, value] : fields.items())
      if (defaults.contains(name) && defaults[name] == value) names.push_back(name);
    return names;
  }

  static void check_backend(const Json& backend) {
    std::vector<std::string> names;
    for (const BackendStatus& status : backend_statuses()) names.push_back(status.name);
    if (std::ranges::find(names, backend.get<std::string>()) == names.end()) try {
        fail_unknown("[op]", "backend", backend.get<std::string>(), names);
      } catch (const UsageError& error) {
        throw FieldError("backend", error.what());
      }
  }
};

}  // namespace
D5_REGISTER(benches, "op", OpBench);
}  // namespace d5
