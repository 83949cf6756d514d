// SPDX-License-Identifier: Apache-2.0
// One network compiled for a case and checked against the oracle, ready to take steps.
#pragma once

#include <map>
#include <memory>

#include "d5/bench/net_case.hpp"
#include "d5/bench/net_problem.hpp"
#include "d5/bench/step_observer.hpp"

namespace d5 {

class ResidentPeak;

class NetRun {
 public:
  explicit NetRun(Json fields);

  // why_not -> compile -> a first step -> check. Anything but passed or mistrusted: there is nothing to run.
  Outcome open(Depth);
  void step();
  void step(StepObserver&);  // waits for the device before it ends
  // A few steps that nobody sees, then those that the observer wants.
  void show(StepObserver&);
  Outcome check_again();  // after the measurement

  const Json& fields() const { return fields_; }
  NetPass pass() const { return pass_; }
  const Graph& graph() const { return graph_; }
  const CompileOptions& options() const { return options_; }
  Backend& backend() { return *backend_; }
  Executable& executable() { return *timed_.executable; }
  Cost cost() const;
  DType compute_type() const;  // of the ParameterSet
  // Whether the steps are those of another process, which times itself and tells nothing of single operators.
  bool elsewhere() const;

 private:
  struct Built {
    std::unique_ptr<ParameterSet> parameters;
    std::unique_ptr<Executable> executable;
  };
  Built build(const Graph&, const CompileOptions&);
  void run_once(Executable&);
  void describe_memory(const ResidentPeak&, Index parameter_bytes, Json& details) const;
  bool has_gradients_in_set() const;
  std::optional<std::string> divide(Json& details);  // why it cannot be
  // The executable that is timed, after a first step where `inputs` are given. OverLimit, or why it cannot be.
  void make_timed(const NetProblem* inputs);
  std::optional<std::string> make_split(const NetProblem* inputs, Json& details);
  Built little(const Graph& small);  // the same for few samples, whose results are known
  void check_before(const NetProblem& inputs, Outcome&);

  Json fields_;
  NetPass pass_;
  CompileOptions options_;
  Execution execution_;
  Graph graph_;  // as it is: undivided
  std::map<std::string, std::vector<Index>> pieces_;
  Index split_samples_ = 0;  // of a part of the step; 0: it is whole
  std::unique_ptr<Backend> backend_;
  Built timed_;
  NetProblem expected_;
};

}  // namespace d5
