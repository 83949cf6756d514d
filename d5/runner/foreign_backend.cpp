// SPDX-License-Identifier: Apache-2.0
// A worker in another language as a Backend: d5's own worker starts it, gives it the inputs, takes its results and lets
// it time itself. So oracle, check, roofline and records are the same as for our own backends, and the parent sees one
// child: both processes are stopped, limited and ended together.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "d5/bench/times_itself.hpp"
#include "d5/runner/child.hpp"
#include "d5/runner/foreign_case.hpp"
#include "d5/runner/foreign_workers.hpp"
#include "d5/runner/protocol.hpp"
#include "d5/runner/shared_memory.hpp"

namespace d5 {
namespace {

ForeignWorker find_worker(const std::string& name) {
  for (ForeignWorker& worker : foreign_workers())
    if (worker.status.name == name) return worker;
  throw Error("[worker] {} is not there any more", name);
}

// One process for each name, kept from case to case: a framework takes seconds to load.
class Process {
 public:
  static std::shared_ptr<Process> of(const ForeignWorker& worker) {
    static std::map<std::string, std::shared_ptr<Process>> all;
    auto& process = all[worker.status.name];
    if (!process || process->child_->pid() < 0) {
      process.reset();
      process = std::make_shared<Process>(worker);
    }
    return process;
  }

  explicit Process(const ForeignWorker& worker) : name_(worker.status.name) {
    named([&] {
      child_ = std::make_unique<Child>(ChildSettings{.command = worker.command,
                                                     .environment = worker.environment,
                                                     .limits = {std::numeric_limits<double>::infinity(), 1},
                                                     .nested = true});
    });
  }

  const Json& hello() const { return child_->hello(); }
  Json ask(const Json& request) {
    Json answer;
    named([&] { answer = child_->ask(request); });
    return answer;
  }
  Tensor fetch(const std::string& tensor, int id) {
    Tensor fetched;
    named([&] { fetched = child_->fetch(tensor, id); });
    return fetched;
  }

 private:
  template <class Act>
  void named(Act act) {
    try {
      act();
    } catch (const Error& error) {
      throw error.within("[worker] " + name_);
    }
  }

  const std::string name_;
  std::unique_ptr<Child> child_;
};

Facts facts_from(const Json& object) {
  Facts facts;
  for (const auto& [name, value] : object.items())
    facts.emplace_back(name, value.is_string() ? value.get<std::string>() : value.dump());
  return facts;
}

class ForeignExecutable final : public Executable, public TimesItself {
 public:
  ForeignExecutable(std::shared_ptr<Process> process, int id, const Graph& graph, const Json& details)
      : process_(std::move(process)), id_(id), specs_(infer_specs(graph)), details_(details) {
    for (const GraphInput& input : graph.inputs) given_.push_back(input.name);
    for (const auto& [name, tensor] : graph.constants) written_[name] = tensor;
  }
  ~ForeignExecutable() override {
    try {
      process_->ask({{"do", "finish"}, {"id", id_}});
    } catch (const std::exception&) {  // it is gone, and its case with it
    }
  }

  // What was written goes over at once, and the worker runs its pass on it: backward includes forward.
  void forward(const Run&) override {
    const SharedFile file;
    std::vector<std::pair<std::string, Tensor>> tensors(written_.begin(), written_.end());
    file.write(tensors);
    const Json answer = process_->ask({{"do", "load"}, {"id", id_}, {"file", file.path()}});
    details_.update(answer.value("details", Json::object()));
    has_results_ = true;
  }
  void backward(const Run&) override {}

  SliceResult time_steps(const Slice& slice, int64_t flush_bytes) override {
    Json request = to_json(slice);
    request.update({{"do", "run"}, {"id", id_}, {"flush_bytes", flush_bytes}});
    SliceResult result = slice_result_from_json(process_->ask(request));
    const auto wanted = static_cast<size_t>(slice.samples);
    if (result.seconds.size() != wanted || result.start.size() != wanted)
      throw Error("[worker] {} times and {} starts came for {} samples", result.seconds.size(), result.start.size(),
                  wanted);
    for (const double seconds : result.seconds)
      if (!(seconds > 0) || !std::isfinite(seconds))
        throw Error("[worker] {} s came as the time of an iteration; a positive number is wanted", seconds);
    return result;
  }

  Json details() const override {
    Json others = details_;
    for (const char* known : {"kernels", "narrow_arithmetic"}) others.erase(known);
    return others;
  }

  void write(Role role, const std::string& value, const Tensor& canonical, int) override {
    spec(value);
    const bool is_input = std::ranges::find(given_, value) != given_.end();
    if (is_input == (role == Role::value)) written_[key(role, value)] = canonical;
    has_results_ = false;  // also where a result is poisoned: what was computed before does not count
  }

  Tensor read(Role role, const std::string& value, int) override {
    if (has_results_) return process_->fetch(key(role, value), id_);
    Tensor nothing(spec(value).dtype, spec(value).shape);
    nothing.fill_bytes(0xff);
    return nothing;
  }

  Tensor view(Role, const std::string&, int) override { return {}; }

  size_t bytes() const override {
    double sum = 0;
    for (const auto& [value, spec] : specs_) sum += spec.bytes();
    return static_cast<size_t>(sum);
  }

  Facts kernels() const override { return facts_from(details_.value("kernels", Json::object())); }
  std::string narrow_arithmetic(Pass) const override { return details_.value("narrow_arithmetic", ""); }

 private:
  static std::string key(Role role, const std::string& value) {
    return role == Role::gradient ? "gradient " + value : value;
  }
  const TensorSpec& spec(const std::string& value) const {
    const auto found = specs_.find(value);
    if (found == specs_.end()) throw Error("[worker] there is no value '{}'", value);
    return found->second;
  }

  const std::shared_ptr<Process> process_;
  const int id_;
  const Specs specs_;
  std::vector<std::string> given_;
  std::map<std::string, Tensor> written_;
  Json details_;
  bool has_results_ = false;
};

class ForeignBackend final : public Backend {
 public:
  explicit ForeignBackend(ForeignWorker worker) : worker_(std::move(worker)) {}

  std::optional<std::string> why_not(const Graph& graph, const CompileOptions& options) const override {
    if (options.memory_limit > 0) return "a worker does not say what memory it takes: no limit can be kept";
    if (options.recompute_above > 0 && options.mode == Mode::training) return "a worker keeps what it needs";
    if (auto reason = why_not_started()) return reason;
    if (auto reason = why_not_described(graph)) return reason;
    const Outcome outcome = prepare(graph, options);
    if (outcome.status == "unsupported") return outcome.reason;
    return {};
  }

  std::unique_ptr<Executable> compile(const Graph& graph, ParameterSet&, const CompileOptions& options) override {
    const Outcome outcome = prepare(graph, options);
    if (outcome.status == "unsupported") throw Error("[worker] {}: {}", worker_.status.name, outcome.reason);
    prepared_.clear();
    return std::make_unique<ForeignExecutable>(Process::of(worker_), id_, graph, outcome.details);
  }

  Facts facts() const override {
    if (auto reason = why_not_started()) throw Error("[worker] {}", *reason);
    return facts_from(Process::of(worker_)->ask({{"do", "describe"}, {"backend", worker_.status.name}}).at("facts"));
  }

 private:
  // A worker that cannot do anything here says so with hello.
  std::optional<std::string> why_not_started() const {
    if (worker_.command.empty()) return worker_.status.reason;
    const std::string reason = Process::of(worker_)->hello().value("unavailable", "");
    if (reason.empty()) return {};
    return worker_.install.empty() ? reason : reason + "; " + worker_.install;
  }

  // Once for why_not and the compile that follows it.
  Outcome prepare(const Graph& graph, const CompileOptions& options) const {
    const Json fields = describe_foreign_case(worker_.status.name, graph, options);
    if (prepared_ != fields.dump()) {
      static int next_id = 0;
      id_ = next_id++;
      outcome_ = outcome_from_json(
          Process::of(worker_)->ask({{"do", "prepare"}, {"id", id_}, {"depth", "build"}, {"case", fields}}));
      prepared_ = fields.dump();
    }
    if (outcome_.status != "passed" && outcome_.status != "unsupported")
      throw Error("[worker] {}: {}: {}", worker_.status.name, outcome_.status, outcome_.reason);
    return outcome_;
  }

  const ForeignWorker worker_;
  mutable std::string prepared_;  // the case that id_ and outcome_ belong to
  mutable int id_ = 0;
  mutable Outcome outcome_;
};

struct ForeignBackends {
  static std::vector<BackendStatus> statuses() {
    std::vector<BackendStatus> all;
    for (const ForeignWorker& worker : foreign_workers()) all.push_back(worker.status);
    return all;
  }
  static std::unique_ptr<Backend> open(const std::string& name) {
    return std::make_unique<ForeignBackend>(find_worker(name));
  }
};

}  // namespace
D5_REGISTER(backend_sources, "workers", ForeignBackends);
}  // namespace d5
