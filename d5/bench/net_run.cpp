// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/net_run.hpp"

#include "d5/bench/times_itself.hpp"
#include "d5/core/parallel.hpp"
#include "d5/measure/resident_memory.hpp"

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

}  // namespace

NetRun::NetRun(Json fields)
    : fields_(std::move(fields)), pass_(net_pass(fields_)), options_(net_compile_options(fields_)) {}

DType NetRun::compute_type() const {
  const DType type = parse_dtype(fields_.at("dtype").get<std::string>());
  return type == DType::bf16 || type == DType::f16 ? type : DType::f32;
}

NetRun::Built NetRun::build(const Graph& graph) {
  Built built;
  built.parameters = std::make_unique<ParameterSet>(compute_type(), backend_->memory(options_.device));
  built.executable = backend_->compile(graph, *built.parameters, options_);
  return built;
}

void NetRun::run_once(Executable& executable) {
  executable.forward({});
  if (options_.mode == Mode::training) executable.backward({});
  backend_->synchronize();
}

Outcome NetRun::open(Depth depth) {
  Outcome outcome;
  set_threads(fields_.at("threads").get<int>());
  try {
    backend_ = open_backend(fields_.at("backend").get<std::string>());
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    return {.status = "unsupported", .reason = error.what()};
  }
  graph_ = network_of(fields_);
  if (auto reason = backend_->why_not(graph_, options_)) return {.status = "unsupported", .reason = *reason};

  // Inputs are the harness's own, so they are made before memory is looked at.
  const bool steps = depth > Depth::build;
  NetProblem inputs = steps ? make_net_inputs(graph_, options_.mode, fields_.at("seed").get<uint64_t>()) : NetProblem();
  const ResidentPeak peak;
  timed_ = build(graph_);
  Json& details = outcome.details;
  details["kernels"] = to_json(timed_.executable->kernels());
  details["backend"] = to_json(backend_->facts());
  details["memory_bytes"] = timed_.executable->bytes();
  const Index parameter_bytes = timed_.parameters->elements() * static_cast<Index>(sizeof(float));
  details["parameter_bytes"] = parameter_bytes;
  if (!steps) return outcome;
  write_values(inputs, *timed_.executable);
  run_once(*timed_.executable);
  describe_memory(peak, parameter_bytes, details);
  check_before(inputs, outcome);
  return outcome;
}

bool NetRun::elsewhere() const { return dynamic_cast<TimesItself*>(timed_.executable.get()) != nullptr; }

// Asked for after a step, because an executable that allocates as it goes knows only then.
void NetRun::describe_memory(const ResidentPeak& peak, Index parameter_bytes, Json& details) const {
  Json& memory = details["memory"];
  if (elsewhere()) {
    memory["planned_unavailable"] = memory["peak_unavailable"] = "the case runs in a process of its own";
    details["worker"] = dynamic_cast<TimesItself*>(timed_.executable.get())->details();
    return;
  }
  // Values and, where it learns, gradients of parameters beside what the executable has laid out.
  memory["planned_bytes"] =
      static_cast<Index>(timed_.executable->bytes()) + parameter_bytes * (options_.mode == Mode::training ? 2 : 1);
  if (options_.device != "cpu")
    memory["peak_unavailable"] = "the resident set is the host's, the case runs on " + options_.device;
  else if (const auto growth = peak.growth_bytes())
    memory["peak_bytes"] = *growth;
  else
    memory["peak_unavailable"] = peak.why_not();
}

// Samples of a batch do not depend on each other where the network is used, so the oracle looks at the first few of
// them. Where it learns they do (batch normalisation), so the same network with a small batch is compiled as well, and
// the large one must give at the end what it gave at the beginning.
void NetRun::check_before(const NetProblem& inputs, Outcome& outcome) {
  const Index few = options_.mode == Mode::training ? 4 : 2;  // statistics of two samples are hardly any
  const auto seed = fields_.at("seed").get<uint64_t>();
  const bool smaller = fields_.at("batch").get<Index>() > few;
  const Graph small = smaller ? network_of(fields_, few) : graph_;
  expected_ = smaller ? make_net_inputs(small, options_.mode, seed) : inputs;
  add_expected(small, options_.mode, options_.math, seed, expected_);

  const bool apart = smaller && options_.mode == Mode::training;
  Built little;
  if (apart) {
    little = build(small);
    write_values(expected_, *little.executable);
    run_once(*little.executable);
  }
  const NetCheck check = check_network(expected_, apart ? *little.executable : *timed_.executable);
  outcome.details["check"] = to_json(check);
  if (!check.passed) {
    outcome.status = "failed";
    outcome.reason = check.reason;
    return;
  }
  if (check.powerless) {
    outcome.status = "mistrusted";
    outcome.reason = "the check had no power: rounding alone may move every result by a tenth of itself";
  }
  if (apart) expected_ = remembered(expected_, *timed_.executable);
}

Outcome NetRun::check_again() {
  Outcome outcome;
  const NetCheck check = check_network(expected_, *timed_.executable);
  outcome.details["check"] = to_json(check);
  if (!check.passed) return {"failed", "after the measurement: " + check.reason, outcome.details};
  return outcome;
}

void NetRun::step() {
  if (pass_ != NetPass::backward) timed_.executable->forward({});
  if (pass_ != NetPass::forward) timed_.executable->backward({});
}

void NetRun::step(StepObserver& observer) {
  observer.step_begin();
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    if (pass_ == (pass == Pass::forward ? NetPass::backward : NetPass::forward)) continue;
    observer.pass_begin(pass);
    if (pass == Pass::forward)
      timed_.executable->forward({.observer = &observer});
    else
      timed_.executable->backward({.observer = &observer});
    observer.pass_end(pass);
  }
  backend_->synchronize();
  observer.step_end();
}

void NetRun::show(StepObserver& observer) {
  observer.network(graph_, options_);
  for (int i = 0; i < 2; ++i) step();
  backend_->synchronize();
  for (int i = 0; i < observer.steps(); ++i) step(observer);
}

Cost NetRun::cost() const {
  Cost sum;
  const Specs specs = infer_specs(graph_);
  for (const Node& node : graph_.nodes) {
    const auto op = make_operator(node);
    const auto in = specs_of(specs, node.inputs);
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      if (pass == Pass::forward ? pass_ == NetPass::backward : pass_ == NetPass::forward) continue;
      sum.flops += op->cost(in, pass).flops;
    }
  }
  // A network must at least read its parameters and inputs; whatever is between can stay in caches.
  for (const GraphInput& input : graph_.inputs)
    sum.bytes += input.spec.bytes() * (pass_ != NetPass::forward && input.parameter ? 2 : 1);
  for (const std::string& name : graph_.outputs) sum.bytes += specs.at(name).bytes();
  return sum;
}

}  // namespace d5
