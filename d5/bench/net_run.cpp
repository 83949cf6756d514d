// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/net_run.hpp"

#include <algorithm>

#include "d5/backends/memory_limit.hpp"
#include "d5/bench/fields.hpp"
#include "d5/bench/net_division.hpp"
#include "d5/bench/step_split.hpp"
#include "d5/bench/times_itself.hpp"
#include "d5/core/parallel.hpp"
#include "d5/graph/evaluate.hpp"
#include "d5/graph/micro_batch.hpp"
#include "d5/graph/sizes.hpp"
#include "d5/measure/resident_memory.hpp"

namespace d5 {
namespace {

Json to_json(const NetCheck& check) {
  Json json = {{"linf", check.linf},
               {"l1", check.l1},
               {"l2", check.l2},
               {"worst_share_of_tolerance", check.worst_share},
               {"compared", check.compared}};
  if (check.integers > 0)
    json["integers"] = {{"compared", check.integers},
                        {"differ", check.integers_off},
                        {"may_differ_by_rounding", check.integers_may_be_off}};
  return json;
}

std::string why_mistrusted(const NetCheck& check) {
  if (check.compared == 0) return "nothing could be compared";
  if (!check.not_finite.empty()) return check.not_finite;
  if (check.powerless) return "the check had no power: rounding alone may move every result by a tenth of itself";
  return {};
}

// The first node whose results are random, by numbers that only `reference` draws as the oracle does: a file says what
// is drawn, not how.
std::string drawn_otherwise(const Graph& graph, const std::string& backend) {
  if (backend == "reference") return {};
  const auto found =
      std::ranges::find_if(graph.nodes, [](const Node& node) { return is_random(node.op) && node.op != "Dropout"; });
  if (found == graph.nodes.end()) return {};
  return fmt::format("node '{}' ({}) is random and {} draws numbers of its own: nothing can be compared", found->name,
                     found->op, backend);
}

// Whether the first few samples are the first rows of every input and result, so that they can be looked at alone.
bool rows_are_samples(const Graph& whole, const Graph& few) {
  const Specs all = infer_specs(whole), some = infer_specs(few);
  const auto is_rows = [&](const Shape& a, const Shape& b) {
    return a.rank() > 0 && a.rank() == b.rank() && std::equal(a.begin() + 1, a.end(), b.begin() + 1) &&
           a[0] * samples_of(few) == b[0] * samples_of(whole);
  };
  for (const GraphInput& input : whole.inputs) {
    const Shape &a = all.at(input.name).shape, &b = some.at(input.name).shape;
    if (!(a == b) && !is_rows(a, b)) return false;
  }
  return std::ranges::all_of(whole.outputs,
                             [&](const std::string& name) { return is_rows(all.at(name).shape, some.at(name).shape); });
}

Json to_json(const Facts& facts) {
  Json json = Json::object();
  for (const auto& [name, value] : facts) json[name] = value;
  return json;
}

}  // namespace

NetRun::NetRun(Json fields)
    : fields_(std::move(fields)),
      pass_(net_pass(fields_)),
      options_(net_compile_options(fields_)),
      execution_(net_execution(fields_)) {}

DType NetRun::compute_type() const {
  const DType type = parse_dtype(fields_.at("dtype").get<std::string>());
  return type == DType::bf16 || type == DType::f16 ? type : DType::f32;
}

NetRun::Built NetRun::build(const Graph& graph, const CompileOptions& options) {
  Built built;
  built.parameters = std::make_unique<ParameterSet>(compute_type(), backend_->memory(options.device));
  built.executable = backend_->compile(graph, *built.parameters, options);
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
  if (auto off = open_backend_of(fields_, backend_)) return *off;
  graph_ = network_of(fields_);
  Json& details = outcome.details;
  details["samples_per_step"] = samples_of(graph_);
  for (const std::string& warning : warnings_of_sizes(graph_, fields_)) details["warnings"].push_back(warning);
  auto why_not = why_no_inputs(graph_);
  if (!why_not) why_not = backend_->why_not(graph_, options_);
  if (why_not) return {.status = "unsupported", .reason = *why_not, .details = details};
  if (execution_.divide != Execution::Division::none)
    if (auto reason = divide(details)) return {.status = "unsupported", .reason = *reason};

  // Inputs are the harness's own, so they are made before memory is looked at.
  const bool steps = depth > Depth::build;
  NetProblem inputs = steps ? make_net_inputs(graph_, options_.mode, fields_.at("seed").get<uint64_t>()) : NetProblem();
  if (steps && options_.mode == Mode::training && inputs.output_gradients.empty())
    return {.status = "unsupported",
            .reason = "[net] nothing is learned: no output depends on a parameter that is trained",
            .details = details};
  const ResidentPeak peak;
  try {
    const NetProblem* values = steps ? &inputs : nullptr;
    if (!execution_.split)
      make_timed(values);
    else if (auto reason = make_split(values, details))
      return {.status = "unsupported", .reason = *reason};
  } catch (const OverLimit& over) {
    return {.status = "unsupported", .reason = over.what()};
  }
  details["kernels"] = to_json(timed_.executable->kernels());
  details["backend"] = to_json(backend_->facts());
  details["memory_bytes"] = timed_.executable->bytes();
  if (const auto workspace = timed_.executable->workspace_bytes()) details["workspace_bytes"] = *workspace;
  const Index parameter_bytes = timed_.parameters->elements() * static_cast<Index>(sizeof(float));
  details["parameter_bytes"] = parameter_bytes;
  if (!steps) return outcome;
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
      static_cast<Index>(timed_.executable->bytes()) + parameter_bytes * (has_gradients_in_set() ? 2 : 1);
  if (options_.device != "cpu")
    memory["peak_unavailable"] = "the resident set is the host's, the case runs on " + options_.device;
  else if (const auto growth = peak.growth_bytes())
    memory["peak_bytes"] = *growth;
  else
    memory["peak_unavailable"] = peak.why_not();
}

// A library may keep the gradients of parameters in memory of its own, which it counts.
bool NetRun::has_gradients_in_set() const {
  if (options_.mode != Mode::training) return false;
  for (const ParameterSet::Parameter& parameter : timed_.parameters->parameters()) {
    if (!parameter.trainable) continue;
    const Tensor gradient = timed_.executable->view(Executable::Role::gradient, parameter.name);
    if (gradient.present()) return gradient.data() == timed_.parameters->gradient(parameter.name).data();
  }
  return true;
}

std::optional<std::string> NetRun::divide(Json& details) {
  const Workspaces workspaces =
      execution_.divide == Execution::Division::shared ? Workspaces::shared : Workspaces::side_by_side;
  NetDivision division = divide_network(graph_, *backend_, options_, compute_type(), workspaces);
  if (!division.why_not.empty()) return division.why_not;
  pieces_ = std::move(division.pieces);
  details["micro_batches"] = std::move(division.report);
  return {};
}

void NetRun::make_timed(const NetProblem* inputs) {
  timed_ = build(pieces_.empty() ? graph_ : with_micro_batches(graph_, pieces_), options_);
  if (!inputs) return;
  write_values(*inputs, *timed_.executable);
  run_once(*timed_.executable);
}

// As many samples at once as are asked for, or as fit: where memory is taken as it goes, only a step tells.
std::optional<std::string> NetRun::make_split(const NetProblem* inputs, Json& details) {
  if (pass_ == NetPass::backward)
    return "accumulate: forward and backward of a part follow each other; use --pass step";
  const Index all = samples_of(graph_);
  const Index asked = execution_.split_samples;
  if (batch_sizes(graph_).empty() && asked != all)
    return fmt::format("accumulate: the batch of {} samples cannot be changed", all);
  if (asked > 0 && all % asked != 0)
    throw UsageError("[accumulate] {} samples are not divided evenly into parts of {}", all, asked);
  if (const auto why = depends_on_batch(graph_); !why.empty())
    details["warnings"].push_back("accumulate: " + why + ", so gradients differ from those of the whole step");
  std::string last;
  for (Index samples = asked > 0 ? asked : all; samples >= 1; --samples) {
    if (all % samples != 0) continue;
    try {
      const Graph part = network_of(fields_, samples);
      if (auto reason = backend_->why_not(part, options_)) return reason;
      timed_ = {};
      timed_ = build(part, options_);
      if (dynamic_cast<TimesItself*>(timed_.executable.get()))
        return "accumulate: the backend runs in a process of its own, which takes whole steps";
      if (samples < all) timed_.executable = split_step(std::move(timed_.executable), graph_, part, options_.mode);
      if (inputs) {
        write_values(*inputs, *timed_.executable);
        run_once(*timed_.executable);
        run_once(*timed_.executable);  // what is kept from one step to the next counts, too
      }
      split_samples_ = samples;
      details["accumulate"] = {{"samples", samples}, {"parts", all / samples}};
      return {};
    } catch (const OverLimit& over) {
      last = over.what();
    }
    if (asked > 0) break;
  }
  timed_ = {};
  return last;
}

// Of convolutions that are divided, halves; of a step, too, unless parts give other results than the whole.
NetRun::Built NetRun::little(const Graph& small) {
  CompileOptions options = options_;
  options.memory_limit = 0;
  const Index samples = samples_of(small);
  if (split_samples_ > 0 && split_samples_ < samples_of(graph_) && samples % 2 == 0 &&
      depends_on_batch(small).empty()) {
    const Graph part = network_of(fields_, samples / 2);
    Built built = build(part, options);
    built.executable = split_step(std::move(built.executable), small, part, options_.mode);
    return built;
  }
  auto halves = pieces_;
  for (auto& [node, sizes] : halves) sizes = {samples - samples / 2, samples / 2};
  return build(halves.empty() || samples < 2 ? small : with_micro_batches(small, halves), options);
}

// Samples of a batch do not depend on each other where the network is used, so the oracle looks at the first few of
// them, unless the batch is fixed or they are no rows. Where it learns they do (batch normalisation), so the same
// network with a small batch is compiled as well, and the large one must give at the end what it gave at the beginning.
void NetRun::check_before(const NetProblem& inputs, Outcome& outcome) {
  const Index few = options_.mode == Mode::training ? 4 : 2;  // statistics of two samples are hardly any
  const auto seed = fields_.at("seed").get<uint64_t>();
  bool smaller = samples_of(graph_) > few && !batch_sizes(graph_).empty() && !why_evaluated(graph_);
  Graph small = smaller ? network_of(fields_, few) : graph_;
  if (smaller && options_.mode == Mode::inference && !rows_are_samples(graph_, small)) {
    smaller = false;
    small = graph_;
  }
  expected_ = smaller ? make_net_inputs(small, options_.mode, seed) : inputs;
  add_expected(small, options_.mode, options_.math, seed, expected_);

  const bool own_statistics = split_samples_ > 0 && !depends_on_batch(graph_).empty();
  const bool apart = (smaller || own_statistics) && options_.mode == Mode::training;
  Built small_one;
  if (apart) {
    small_one = little(small);
    write_values(expected_, *small_one.executable);
    run_once(*small_one.executable);
  }
  const NetCheck check = check_network(expected_, apart ? *small_one.executable : *timed_.executable);
  outcome.details["check"] = to_json(check);
  const std::string drawn = drawn_otherwise(graph_, fields_.at("backend").get<std::string>());
  if (!check.passed && drawn.empty()) {
    outcome.status = "failed";
    outcome.reason = check.reason;
    return;
  }
  if (const std::string reason = drawn.empty() ? why_mistrusted(check) : drawn; !reason.empty()) {
    outcome.status = "mistrusted";
    outcome.reason = reason;
  }
  if (apart) expected_ = remembered(expected_, *timed_.executable);
}

Outcome NetRun::check_again() {
  Outcome outcome;
  const NetCheck check = check_network(expected_, *timed_.executable);
  outcome.details["check"] = to_json(check);
  const bool comparable = drawn_otherwise(graph_, fields_.at("backend").get<std::string>()).empty();
  if (!check.passed && comparable) return {"failed", "after the measurement: " + check.reason, outcome.details};
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
  // Of an evaluated graph as much as can be told before the run: less than it really costs.
  const Specs specs = infer_some_specs(graph_).specs;
  const auto is_told = [&](const std::string& name) { return name.empty() || specs.contains(name); };
  for (const Node& node : graph_.nodes) {
    if (!std::ranges::all_of(node.inputs, is_told) || !std::ranges::all_of(node.outputs, is_told)) continue;
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
  for (const std::string& name : graph_.outputs)
    if (specs.contains(name)) sum.bytes += specs.at(name).bytes();
  return sum;
}

}  // namespace d5
